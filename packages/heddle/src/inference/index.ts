/** Inference: models compiled to engines. */
export { compile, type EngineOptions } from './compile.js';
export { Engine } from './engine.js';
export type { EngineValue } from './engine-parts.js';
export { type LoadEngineOptions, loadEngine } from './load-engine.js';
export type { EnginePrecision } from './trace-model.js';
