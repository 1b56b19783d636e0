/**
 * Pictures of networks and of their training. Every function that draws returns an SVG; `toPng` makes a PNG of it.
 */
export { type Bar, type BarChart, barChart } from './bar-chart.js';
export type { PictureOptions } from './chart.js';
export { addLook } from './command.js';
export { type ConfusionOptions, confusionMatrixSvg } from './confusion.js';
export {
  type FeatureMapsOptions,
  type FiltersOptions,
  featureMapsSvg,
  filtersSvg,
} from './filters.js';
export {
  type GradCam,
  type GradCamOptions,
  type GradCamPictureOptions,
  gradCam,
  gradCamPng,
  gradCamSvg,
  type ImageInput,
} from './grad-cam.js';
export {
  gradientsOf,
  type Histogram,
  type HistogramsOptions,
  histogram,
  histogramsSvg,
} from './histograms.js';
export { type CaptionedImage, type ImagesOptions, imagesSvg } from './images.js';
export { type Curve, type LineChart, lineChart } from './line-chart.js';
export { type EmbeddingOptions, embeddingSvg, type Projection, pca } from './pca.js';
export { type PngOptions, toPng } from './png.js';
export {
  confusionOf,
  type MistakesOptions,
  mistakesSvg,
  type Predictions,
  type PredictionsOptions,
  predictions,
  worstMistakes,
} from './predictions.js';
export type { Raster } from './raster.js';
export { type Profile, rooflineChart } from './roofline.js';
export { runCurves } from './run/curves.js';
