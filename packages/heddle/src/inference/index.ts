/** Inference: models compiled to engines. */
export { compile, type EngineOptions } from './compile.js';
export { Engine, type EngineValue } from './engine.js';
export type { EnginePrecision } from './trace-model.js';
