/** ONNX models for Heddle. */
export type { ElementTypeName } from './file/element-types.js';
