/** A user's kernel as an op: it makes a new value from its sources, and the scheduler runs it among all others. */
import type { DType } from '../../core/dtype.js';
import { ArgumentError } from '../../core/errors.js';
import { type Shape, sizeOf } from '../../core/shape.js';
import * as b from '../../graph/build.js';
import type { FusedOp, Stage, StageArgument } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import { kernelHash } from '../../kernel/ir/fingerprint.js';
import type { KernelIr } from '../../kernel/ir/ir.js';
import { buffer } from '../../kernel/ir/types.js';
import { type Cast, defineKernel } from '../../kernel/language/language.js';
import { gridStage } from '../stage.js';
import type { GridKernel } from '../tiled.js';

export interface UserKernelArg {
  /** What the compiler makes of the kernel depends on this alone. */
  readonly hash: string;
  readonly grid: readonly [number, number, number];
  readonly block: readonly [number, number, number];
  readonly sharedBytes: number;
  /** In the order of the kernel's parameters. */
  readonly args: readonly StageArgument[];
  readonly shape: Shape;
  readonly dtype: DType;
}

const THREADS = 256;

/** 0 in every element: what a kernel does not write is not what another has left there. */
function clear(size: number, dtype: DType): GridKernel {
  const kernel = defineKernel(
    'clear',
    { y: buffer(dtype) },
    ({ y }, { globalId, number, SIZE }) => {
      if (globalId.x < SIZE) y[globalId.x] = number(0);
    },
    { number: dtype as Cast<'f32'>, SIZE: size },
  );
  return { kernel, grid: [Math.ceil(size / THREADS), 1, 1], threads: THREADS, sharedBytes: 0 };
}

const opOf = (ir: KernelIr): FusedOp<UserKernelArg> => ({
  name: ir.name,
  infer: (_, { shape, dtype }) => ({ shape, dtype }),
  compose: () => {
    throw new ArgumentError(`[${ir.name}] a kernel of a user's is composed of no other ops.`);
  },
  grad: () => {
    throw new ArgumentError(
      `[${ir.name}] a kernel has no gradient. Say what it is with customGradient(forward, backward), or .detach() its arguments.`,
    );
  },
  kernels: [
    {
      name: ir.name,
      when: () => true,
      finishes: false,
      plan: (_, { grid, block, sharedBytes, args, shape, dtype }): Stage[] => [
        gridStage(clear(sizeOf(shape), dtype), { output: true }),
        { kernel: ir, grid, block, sharedBytes, args },
      ],
    },
  ],
});

const ops = new WeakMap<KernelIr, FusedOp<UserKernelArg>>();

/** What the kernel writes to its one output. */
export function callKernel(
  ir: KernelIr,
  src: readonly GraphNode[],
  arg: Omit<UserKernelArg, 'hash'>,
): GraphNode {
  const op = ops.get(ir) ?? opOf(ir);
  ops.set(ir, op);
  return b.call(op, src, { ...arg, hash: kernelHash(ir) });
}
