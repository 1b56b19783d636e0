/**
 * The epilogue of a library's routine: its plain results are passed through `finish` and stored. One read and one write
 * of every element more than a kernel that applies its own epilogue; the price of a routine that cannot.
 */
import type { DType } from '../core/dtype.js';
import { f32, isHalf } from '../core/dtype.js';
import { stridesOf } from '../core/shape.js';
import type { KernelIo, Stage, StageArgument, Variant } from '../graph/fused-op.js';
import type { KernelIr } from '../kernel/ir/ir.js';
import { type IrFunction, irFunction } from '../kernel/ir/ir-function.js';
import { buffer } from '../kernel/ir/types.js';
import { defineKernel } from '../kernel/language/language.js';
import { gridStage } from './stage.js';
import { windowsOnGpu } from './stored-windows/cuda.js';
import { problemOf } from './stored-windows/problem.js';

const FINISH_THREADS = 256;
/** Elements of a thread, where their dtypes come in vectors. */
const LANES = 4;

interface FinishProblem {
  /** Sizes of the results, outermost first: what `finish` takes as coordinates. */
  readonly split: readonly [number, number, number];
  /** Of the results, and of what is stored. */
  readonly from: DType;
  readonly to: DType;
  readonly finish: IrFunction;
}

/** Parameters: the plain results, the output. With the number of blocks to launch. */
function finishPlain({ split, from, to, finish }: FinishProblem): {
  readonly kernel: KernelIr;
  readonly blocks: number;
} {
  const [A, B, C] = split;
  const lanes = C % LANES === 0 && [from, to].every((dtype) => dtype === f32 || isHalf(dtype)) ? LANES : 1;
  const COUNT = A * B * C;
  const kernel = defineKernel(
    'finishPlain',
    { plain: buffer(from), out: buffer(to) },
    ({ plain, out }, { globalId, idiv, lanes, load4, store4, COUNT, B, C, finish }) => {
      const i = globalId.x * lanes;
      if (i < COUNT) {
        const row = idiv(i, C);
        if (lanes > 1) store4(out, i, finish(load4(plain, i), idiv(row, B), row % B, i % C));
        else out[i] = finish(plain[i], idiv(row, B), row % B, i % C);
      }
    },
    { COUNT, lanes, B, C, finish },
  );
  return { kernel, blocks: Math.ceil(COUNT / (lanes * FINISH_THREADS)) };
}

/** The launch that passes a node's plain values, at `results`, through the epilogue. */
export function finishStage(
  io: KernelIo,
  split: readonly [number, number, number],
  results: StageArgument,
): Stage {
  const { node, output, finish, window } = io;
  const view = { ...node.type, strides: stridesOf(node.shape), offset: 0 };
  if (window) return gridStage(windowsOnGpu(problemOf(io, view)), results, { output: true });
  const { kernel, blocks } = finishPlain({
    split,
    from: node.dtype,
    to: output.dtype,
    finish: finish(split),
  });
  return { kernel, grid: [blocks, 1, 1], block: [FINISH_THREADS, 1, 1], args: [results, { output: true }] };
}

/** Ways to compute a node without its epilogue, which another launch applies. */
export function finishedAfter(io: KernelIo, ways: (plain: KernelIo) => readonly Variant[]): Variant[] {
  const { target, node, inputs } = io;
  const results = { scratch: 'plain', bytes: node.size * node.dtype.bytes };
  const plain: KernelIo = {
    ...{ target, node, inputs, plain: true },
    output: { ...node.type, strides: stridesOf(node.shape), offset: 0 },
    finish: () => irFunction(([value]) => value!),
  };
  const into = (stage: Stage): Stage => ({
    ...stage,
    args: stage.args.map((a) => ('output' in a ? results : a)),
  });
  // By rows where their elements come in vectors, so that those of a bias do too.
  const columns = node.shape.at(-1)! % LANES === 0 ? node.shape.at(-1)! : node.size;
  const split = [1, node.size / columns, columns] as const;
  return ways(plain).map((way) => ({
    ...way,
    name: `${way.name}, then ${io.window?.name ?? 'the epilogue'}`,
    plan: () => [...way.plan().map(into), finishStage(io, split, results)],
  }));
}
