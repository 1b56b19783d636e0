/** What an engine is made of. */
import type { DType } from '../core/dtype.js';
import type { Shape } from '../core/shape.js';
import type { ResidentProgram } from '../engine/resident-program.js';
import type { Device } from '../runtime/device.js';
import type { EnginePrecision } from './trace-model.js';

/** An input or an output of an engine. */
export interface EngineValue {
  /** As the engine was compiled with, or `input0`, `output0` and so on. */
  readonly name: string;
  /** Outputs of 16-bit precisions are f32. */
  readonly dtype: DType;
  /** Of one example: the batch is not among its dimensions. */
  readonly shape: Shape;
}

/** A program of an engine, and the batch that it is for. */
export interface BatchProgram {
  readonly batch: number;
  readonly program: ResidentProgram;
}

/** What an engine is made of. */
export interface EngineParts {
  readonly inputs: readonly EngineValue[];
  readonly outputs: readonly EngineValue[];
  readonly precision: EnginePrecision;
  readonly device: Device;
  /** Smallest batch first. */
  readonly programs: readonly BatchProgram[];
}
