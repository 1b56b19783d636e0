/** A model as the graph that it computes: in evaluation mode, with its parameters as constants. */
import { isPlainObject, shown } from '../core/arguments.js';
import { bf16, type DType, f16, f32, isHalf } from '../core/dtype.js';
import { ArgumentError, ShapeError } from '../core/errors.js';
import type { Precision } from '../core/precision.js';
import { formatShape, type Shape } from '../core/shape.js';
import { bufferOf, realize } from '../engine/realize.js';
import type { BufferStorage } from '../engine/storage.js';
import { Trace } from '../engine/trace.js';
import * as b from '../graph/build.js';
import type { GraphNode } from '../graph/node.js';
import { evaluating } from '../nn/evaluating.js';
import type { Module } from '../nn/module.js';
import { autocast } from '../tensor/autocast.js';
import { getPrecision, setPrecision } from '../tensor/precision.js';
import { type AnyTensor, Tensor } from '../tensor/tensor.js';

/** How products are computed, and what weights are stored as. */
export type EnginePrecision = Precision | 'f16' | 'int8';

/** An input of a model, without the batch. */
export interface ModelInput {
  readonly dtype: DType;
  readonly shape: Shape;
}

/** What a model computes for one batch. */
export interface ModelGraph {
  /** Leaves that stand for the inputs. */
  readonly inputs: readonly GraphNode[];
  /** The results by their names. All other leaves are computed: the parameters and buffers. */
  readonly outputs: readonly (readonly [name: string, node: GraphNode])[];
}

/**
 * Trace a model's `forward` for a batch. The model stays as it is.
 * @throws ArgumentError if the result is not a tensor, a list or a record of tensors, or if the model assigns its state;
 *   ShapeError for a result without the batch; what `forward` throws for such inputs
 */
export function traceModel(
  model: Module,
  inputs: readonly ModelInput[],
  batch: number,
  precision: EnginePrecision,
): ModelGraph {
  const trace = new Trace((node) => realize([node]));
  const leaves = inputs.map(({ shape, dtype }) => b.leaf([batch, ...shape], dtype));
  let outputs: (readonly [string, GraphNode])[] = [];
  trace.run(() => {
    const stands = leaves.map((node): AnyTensor => new Tensor(node));
    trace.inputs.push(...stands);
    const result = evaluating(model, () => inPrecision(precision, () => forward(model, stands)));
    outputs = namedOutputs(result).map(([name, { node }]) => [name, node]);
  });
  if (trace.assigned.size > 0)
    throw new ArgumentError(
      `[compile] the model assigns ${trace.assigned.size} of its tensors in evaluation mode: an engine has no state. ` +
        'Pass what changes as an input, and return it.',
    );
  for (const [{ ownNode }, stand] of trace.captured) {
    bufferOf(ownNode);
    stand.realized(ownNode.storage as BufferStorage);
  }
  for (const [name, { shape }] of outputs)
    if (shape[0] !== batch)
      throw new ShapeError(
        `[compile] ${name} is ${formatShape(shape)} for a batch of ${batch}: each result must have the batch as its first dimension.`,
      );
  // 16-bit results are of the precision, not of the model.
  const isReduced = precision === 'f16' || precision === 'bf16';
  return {
    inputs: leaves,
    outputs: outputs.map(([name, node]) => [
      name,
      isReduced && isHalf(node.dtype) ? b.cast(node, f32) : node,
    ]),
  };
}

const forward = (model: Module, inputs: readonly AnyTensor[]): unknown =>
  b.withoutGradients(() => (model.forward as (...inputs: AnyTensor[]) => unknown).apply(model, [...inputs]));

function inPrecision<T>(precision: EnginePrecision, body: () => T): T {
  const before = getPrecision();
  const products = precision === 'tf32' ? 'tf32' : 'f32';
  setPrecision({ matmul: products, conv: products });
  try {
    if (precision === 'f16' || precision === 'bf16') return autocast(precision === 'f16' ? f16 : bf16, body);
    return body();
  } finally {
    setPrecision(before);
  }
}

/** The tensors of a result: one, a list, or a record. @throws ArgumentError */
function namedOutputs(result: unknown): (readonly [string, AnyTensor])[] {
  const entries: (readonly [string, unknown])[] = Array.isArray(result)
    ? result.map((value, i) => [`output${i}`, value])
    : isPlainObject(result)
      ? Object.entries(result)
      : [['output0', result]];
  if (entries.length === 0) throw new ArgumentError('[compile] the model returns no tensor.');
  return entries.map(([name, value]) => {
    if (value instanceof Tensor) return [name, value];
    throw new ArgumentError(
      `[compile] ${name} of the model is ${shown(value)}: forward must return a tensor, or a list or record of tensors.`,
    );
  });
}
