/** Pictures of networks and of their training. Every chart is a function that returns an SVG; `toPng` makes a PNG of it. */
export { type Bar, type BarChart, barChart } from './bar-chart.js';
export type { PictureOptions } from './chart.js';
export { type Curve, type LineChart, lineChart } from './line-chart.js';
export { type PngOptions, toPng } from './png.js';
export { type Profile, rooflineChart } from './roofline.js';
