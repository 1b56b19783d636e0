/** ONNX models for Heddle. */
export { addOnnx } from './command.js';

export {
  type DynamicAxes,
  type ExportOptions,
  exportOnnx,
  type OnnxExport,
} from './export/export-onnx.js';
export type { LayerClass } from './export/functions.js';
export type { ExampleInput } from './export/trace-model.js';
export type { ElementTypeName } from './file/element-types.js';
export { type LoadOnnxOptions, loadOnnx, OnnxModel, type OnnxOutputs } from './model/onnx-model.js';
export type { OnnxValueInfo } from './model/signature.js';
