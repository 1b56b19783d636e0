/** `heddle/quantization`: networks that compute in 8-bit integers. */
export {
  type ByteDType,
  type DequantizeOptions,
  dequantizeLinear,
  fakeQuantize,
  type QuantizeOptions,
  quantizeLinear,
  type Scale,
  type ZeroPoint,
} from '../tensor/functional-quantization.js';
export type { QuantizationBatch, QuantizationBatches } from './batches.js';
export { QuantizedLayer } from './layers.js';
export { loadQuantized } from './load-quantized.js';
export type { CalibrationMethod } from './observe.js';
export { prepareQat, QatModule, type QatOptions } from './qat.js';
export { type ModuleQuantizationOptions, quantize } from './quantize.js';
export { QuantizedModule } from './quantized-module.js';
export {
  type LayerQuantizationReport,
  type QuantizationError,
  QuantizationReport,
  type QuantizationReportOptions,
  quantizationReport,
} from './report.js';
