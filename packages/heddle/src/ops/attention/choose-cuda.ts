/** The kernels of attention for GPUs, as choices of the fused ops. */
import { bool, f32, isHalf } from '../../core/dtype.js';
import type { KernelChoice, KernelIo, Stage, StageArgument } from '../../graph/fused-op.js';
import type { GraphNode, TensorType } from '../../graph/node.js';
import type { Target } from '../../kernel/ir/target.js';
import { gridStage } from '../stage.js';
import type { AttentionArg } from './arg.js';
import { attentionWarps, type ForwardResults } from './cuda-forward.js';
import { keyValueGradientWarps, queryGradientWarps } from './cuda-gradients.js';
import { attentionProblem, gradientProblem } from './problem.js';
import type { WarpTile } from './warp.js';

/** Compute capability × 10 of Ampere: mma of bf16 and asynchronous copies. */
const MMA = 80;

/** Whether kernels take queries, keys and values of these types, and a mask. */
const fits = (
  { model, capability }: Target,
  [q, k, v]: readonly TensorType[],
  mask: TensorType | undefined,
): boolean =>
  model === 'threads' &&
  capability >= MMA &&
  isHalf(q!.dtype) &&
  q!.shape[3] === v!.shape[3] &&
  q!.shape[3]! % 16 === 0 &&
  q!.shape[3]! > 0 &&
  q!.shape[3]! <= 128 &&
  k!.shape[2]! > 0 &&
  (mask === undefined || mask.dtype === bool || mask.dtype === f32 || isHalf(mask.dtype));

const fitsForward = (target: Target, { src: [q, k, v, mask] }: GraphNode): boolean =>
  fits(target, [q!.type, k!.type, v!.type], mask?.type);

const fitsGradient = (target: Target, { src: [, q, k, v, , , mask] }: GraphNode): boolean =>
  q!.shape[2]! > 0 && fits(target, [q!.type, k!.type, v!.type], mask?.type);

const tileOf = (width: number): WarpTile => ({ warps: 4, across: width > 64 ? 32 : 64, stages: 2 });

const inputs = (...numbers: readonly number[]): StageArgument[] => numbers.map((input) => ({ input }));

/** The parameters of results come last, the mask before them. */
function forwardStages(
  io: KernelIo,
  arg: AttentionArg,
  results: ForwardResults,
  outs: StageArgument[],
): Stage[] {
  const p = attentionProblem(io, arg);
  const mask = p.mask ? inputs(3) : [];
  const kernel = attentionWarps(p, { ...tileOf(p.width), across: 64 }, results);
  return [gridStage(kernel, ...inputs(0, 1, 2), ...mask, ...outs)];
}

const LOG_SUM_EXP = 'attentionLogSumExp';
const VALUE_GRADIENT = 'attentionValueGradient';

/** Sources of the kernels may lie in any order of dimensions. */
const ANY = [true, true, true, true];
const ANY_GRADIENT = [true, true, true, true, false, false, true];

export const attentionChoice: KernelChoice<AttentionArg> = {
  name: 'attention-cuda',
  when: fitsForward,
  strided: ANY,
  finishes: false,
  also: [LOG_SUM_EXP],
  plan: (io, arg) => {
    const logSumExp = io.also?.has(LOG_SUM_EXP) === true;
    const outs = [{ output: true } as const, ...(logSumExp ? [{ also: LOG_SUM_EXP }] : [])];
    return forwardStages(io, arg, { output: true, logSumExp }, outs);
  },
};

export const logSumExpChoice: KernelChoice<AttentionArg> = {
  name: 'attentionLogSumExp-cuda',
  when: fitsForward,
  strided: ANY,
  finishes: false,
  plan: (io, arg) => forwardStages(io, arg, { output: false, logSumExp: true }, [{ output: true }]),
};

const gradientInputs = (hasMask: boolean): StageArgument[] => [
  ...inputs(0, 1, 2, 3),
  ...(hasMask ? inputs(6) : []),
  ...inputs(4, 5),
];

export const queryGradientChoice: KernelChoice<AttentionArg> = {
  name: 'attentionQueryGradient-cuda',
  when: fitsGradient,
  strided: ANY_GRADIENT,
  finishes: false,
  plan: (io, arg) => {
    const p = gradientProblem(io, arg);
    const kernel = queryGradientWarps(p, tileOf(p.width));
    return [gridStage(kernel, ...gradientInputs(p.mask !== undefined), { output: true })];
  },
};

function keyValueStages(io: KernelIo, arg: AttentionArg, toK: boolean): Stage[] {
  const p = gradientProblem(io, arg);
  const toV = !toK || io.also?.has(VALUE_GRADIENT) === true;
  const kernel = keyValueGradientWarps(p, tileOf(p.width), { toK, toV });
  const outs: StageArgument[] = [{ output: true }, ...(toK && toV ? [{ also: VALUE_GRADIENT }] : [])];
  return [gridStage(kernel, ...gradientInputs(p.mask !== undefined), ...outs)];
}

export const keyGradientChoice: KernelChoice<AttentionArg> = {
  name: 'attentionKeyGradient-cuda',
  when: fitsGradient,
  strided: ANY_GRADIENT,
  finishes: false,
  also: [VALUE_GRADIENT],
  plan: (io, arg) => keyValueStages(io, arg, true),
};

export const valueGradientChoice: KernelChoice<AttentionArg> = {
  name: 'attentionValueGradient-cuda',
  when: fitsGradient,
  strided: ANY_GRADIENT,
  finishes: false,
  plan: (io, arg) => keyValueStages(io, arg, false),
};
