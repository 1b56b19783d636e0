/** From a model to an engine. */
import { tuning } from '#engine/tuning.js';
import {
  aString,
  instance,
  integerFrom,
  listOf,
  oneOf,
  type Rule,
  type Rules,
  requireArgument,
  required,
  requireOptions,
} from '../core/arguments.js';
import { aDType, type DType, f32 } from '../core/dtype.js';
import { ArgumentError, ShapeError } from '../core/errors.js';
import { aShape, formatShape, type Shape, sameShape } from '../core/shape.js';
import { scheduleFor } from '../engine/program.js';
import { type ResidentLeaf, ResidentProgram } from '../engine/resident-program.js';
import { leavesRead, runBefore } from '../engine/run-before.js';
import { BufferStorage, currentDevice } from '../engine/storage.js';
import { withoutGradients } from '../graph/build.js';
import type { GraphNode } from '../graph/node.js';
import { Module } from '../nn/module.js';
import { anIterable } from '../quantization/batches.js';
import { type QuantizationBatches, QuantizedModule, quantize } from '../quantization/index.js';
import type { Device } from '../runtime/device.js';
import { openDevice } from '../runtime/registry.js';
import { inIntegers } from '../schedule/integers.js';
import { fingerprint } from '../schedule/passes/canonical.js';
import { ConstantValues } from './constants.js';
import { Engine } from './engine.js';
import type { BatchProgram, EngineValue } from './engine-parts.js';
import { foldRoundings } from './fold-roundings.js';
import { foldScales } from './fold-scales.js';
import { requireSeparateExamples } from './separate-examples.js';
import { type EnginePrecision, traceModel } from './trace-model.js';

/** Options of `compile`. */
export interface EngineOptions {
  /** The shape of one example of each input, without the batch, in the order in which `forward` takes them. */
  readonly shapes: readonly Shape[];
  /** The dtype of each input (default f32). */
  readonly dtypes?: readonly DType[];
  /** The names of the inputs (default `input0`, `input1` and so on). */
  readonly inputNames?: readonly string[];
  /** Batches to make a program for (default [1]). Others are padded to the next larger one, or split. */
  readonly batchSizes?: readonly number[];
  /**
   * f32 (the default) · tf32: products of f32 by tensor cores, with 10 bits of mantissa · bf16, f16: as by `autocast`, with the
   * weights of products stored in 16 bits · int8: products of bytes, as by `quantize`, whose defaults it takes; all else in f32.
   */
  readonly precision?: EnginePrecision;
  /** With precision int8: some hundred examples of the training data, unless the model is one that `quantize` made. */
  readonly calibration?: QuantizationBatches;
  /** The name of the device to run on (default: the current one). */
  readonly device?: string;
}

const aList = (rule: Rule): Rule => ({
  ...listOf(rule),
  holds: (v) => Array.isArray(v) && v.length > 0 && v.every(rule.holds),
});

const OPTIONS: Rules<EngineOptions> = {
  shapes: required(aList(aShape)),
  dtypes: listOf(aDType),
  inputNames: listOf(aString),
  batchSizes: aList(integerFrom(1)),
  precision: oneOf('f32', 'tf32', 'bf16', 'f16', 'int8'),
  calibration: anIterable,
  device: aString,
};

/**
 * Compile a model for inference. `forward` is traced in evaluation mode, with the parameters as they are now as constants: later
 * training does not change the engine. Factors per channel, such as those of a batch norm, are moved into the weights of the
 * convolution or linear layer before, and whatever depends on constants alone is computed once. Each example of a batch must be
 * computed by itself: that is checked for batches of more than one.
 * @param model its `forward` takes tensors with the batch first, and returns one, or a list or record of them
 * @example
 * ```ts
 * import { nn } from 'heddle';
 * import { compile } from 'heddle/inference';
 *
 * const model = new nn.Sequential(new nn.Linear(4, 8), new nn.ReLU(), new nn.Linear(8, 2));
 * const engine = await compile(model, { shapes: [[4]], batchSizes: [1, 16] });
 * const [y] = await engine.runArrays([new Float32Array(3 * 4)], 3);
 * console.log(y!.length, engine.outputs[0]!.shape); // → 6 [ 2 ]
 * ```
 * @throws ArgumentError, ShapeError, DTypeError; DeviceError without such a device; what `forward` throws
 */
export async function compile(model: Module, options: EngineOptions): Promise<Engine> {
  requireArgument('compile', 'model', model, instance(Module, 'a Module'));
  requireOptions('compile', options, OPTIONS);
  const { shapes, dtypes = [], inputNames = [], batchSizes = [1], precision = 'f32' } = options;
  requireOneEach('dtypes', dtypes, shapes);
  requireOneEach('inputNames', inputNames, shapes);
  const inputs = shapes.map((shape, i): EngineValue => {
    return { name: inputNames[i] ?? `input${i}`, dtype: dtypes[i] ?? f32, shape };
  });
  const computed = await inBytes(model, precision, options.calibration);
  const device = options.device === undefined ? currentDevice() : openDevice(options.device);
  const constants = new ConstantValues();
  const programs: BatchProgram[] = [];
  let outputs: readonly EngineValue[] = [];
  for (const batch of [...new Set(batchSizes)].sort((x, y) => x - y)) {
    const traced = traceModel(computed, inputs, batch, precision);
    if (batch > 1) requireSeparateExamples(traced.outputs, traced.inputs, batch);
    const outputNodes = await constants.sharing(traced.outputs.map(([, node]) => node));
    // Bytes first: what a dequantization leaves are factors per channel, which foldScales would move into the weights.
    const roots = withoutGradients(() => foldScales(foldRoundings(inIntegers(outputNodes, device.target))));
    constants.compute(roots);
    const named = traced.outputs.map(([name], i): EngineValue => {
      const { dtype, shape } = roots[i]!;
      return { name, dtype, shape: shape.slice(1) };
    });
    requireSame(outputs, named);
    outputs = named;
    programs.push({ batch, program: await programOf(roots, traced.inputs, constants, device) });
  }
  return new Engine({ inputs, outputs, precision, device, programs });
}

/** The model that is compiled: with precision int8, one whose layers compute in bytes. @throws ArgumentError */
async function inBytes(
  model: Module,
  precision: EnginePrecision,
  calibration: QuantizationBatches | undefined,
): Promise<Module> {
  const isQuantized = model instanceof QuantizedModule;
  if (precision !== 'int8' || isQuantized) {
    if (calibration === undefined) return model;
    throw new ArgumentError(
      `[compile] calibration is given for ${isQuantized ? 'a model that is quantized already' : `precision ${precision}`}: ` +
        "it is for precision 'int8' and a model in floating point. Leave it out.",
    );
  }
  if (calibration) return quantize(model, calibration);
  throw new ArgumentError(
    "[compile] precision is 'int8', calibration is undefined: give batches of the training data, or a model that quantize made.",
  );
}

/** The program of a graph whose leaves are the inputs and constants. */
async function programOf(
  roots: readonly GraphNode[],
  inputs: readonly GraphNode[],
  constants: ConstantValues,
  device: Device,
): Promise<ResidentProgram> {
  const { text, leaves } = fingerprint(roots);
  const numbers = leaves.flatMap((leaf, i) => (inputs.includes(leaf) ? [] : [i]));
  const options = { fingerprint: text, constants: new Set(numbers), ...tuning(device, true) };
  const schedule = scheduleFor(roots, device, options);
  const none = new BufferStorage(0, 'engines', device);
  const values = await Promise.all(
    leaves.map((leaf) => (inputs.includes(leaf) ? none : constants.on(device, leaf))),
  );
  const made = await Promise.all(runBefore(schedule, values, device).map((value) => constants.shared(value)));
  const read = leavesRead(schedule);
  const resident = leaves.map((leaf, i): ResidentLeaf => {
    const input = inputs.indexOf(leaf);
    if (input >= 0) return { input, bytes: leaf.size * leaf.dtype.bytes };
    return { constant: read.has(i) ? values[i]! : none };
  });
  return new ResidentProgram(schedule, [...resident, ...made.map((constant) => ({ constant }))], device);
}

function requireOneEach(name: string, given: readonly unknown[], shapes: readonly Shape[]): void {
  if (given.length > 0 && given.length !== shapes.length)
    throw new ArgumentError(
      `[compile] ${name} has ${given.length} entries for ${shapes.length} inputs: give one for each entry of shapes.`,
    );
}

/** @throws ShapeError where what is computed for another batch differs in more than the batch */
function requireSame(before: readonly EngineValue[], now: readonly EngineValue[]): void {
  before.forEach(({ name, shape }, i) => {
    const other = now[i];
    if (!other || !sameShape(shape, other.shape))
      throw new ShapeError(
        `[compile] ${name} of an example is ${formatShape(shape)} in one batch and ${other ? formatShape(other.shape) : 'missing'} in another: ` +
          'its shape must not depend on the batch.',
      );
  });
}
