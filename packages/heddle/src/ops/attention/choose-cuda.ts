/** The kernels of attention for GPUs, as choices of the fused ops. */
import { bool, f32, isHalf } from '../../core/dtype.js';
import type { KernelChoice, KernelIo, StageArgument, Variant } from '../../graph/fused-op.js';
import type { GraphNode, TensorType } from '../../graph/node.js';
import type { Target } from '../../kernel/ir/target.js';
import { gridStage } from '../stage.js';
import { type AttentionArg, optionalSources } from './arg.js';
import { attentionWarps, type ForwardResults } from './cuda-forward.js';
import { keyValueGradientWarps, queryGradientWarps } from './cuda-gradients.js';
import { drawnBlocks } from './dropout.js';
import { type AttentionProblem, attentionProblem, gradientProblem, rowsOf, suitsPairs } from './problem.js';
import type { WarpTile } from './warp.js';
import { type GroupTile, suitsCopies } from './warpgroup.js';
import { attentionGroups } from './warpgroup-forward.js';
import { keyValueGradientGroups } from './warpgroup-key-gradient.js';
import { queryGradientGroups } from './warpgroup-query-gradient.js';

/** Compute capability × 10 of Ampere: mma of bf16 and asynchronous copies. */
const MMA = 80;

/** Whether kernels take queries, keys and values of these types, and what else there is. */
function fits(
  { model, capability }: Target,
  [q, k, v, ...last]: readonly TensorType[],
  arg: AttentionArg,
): boolean {
  const { mask } = optionalSources(last, arg);
  return (
    model === 'threads' &&
    capability >= MMA &&
    isHalf(q!.dtype) &&
    q!.shape[3] === v!.shape[3] &&
    q!.shape[3]! % 16 === 0 &&
    q!.shape[3]! > 0 &&
    q!.shape[3]! <= 128 &&
    k!.shape[2]! > 0 &&
    (mask === undefined || mask.dtype === bool || mask.dtype === f32 || isHalf(mask.dtype)) &&
    (arg.dropout === undefined || drawnBlocks([...q!.shape.slice(0, 3), k!.shape[2]!]) < 2 ** 31)
  );
}

const fitsForward = (target: Target, { src }: GraphNode, arg: AttentionArg): boolean =>
  fits(
    target,
    src.map(({ type }) => type),
    arg,
  );

const fitsGradient = (
  target: Target,
  { src: [, q, k, v, , , ...last] }: GraphNode,
  arg: AttentionArg,
): boolean =>
  q!.shape[2]! > 0 &&
  fits(
    target,
    [q!, k!, v!, ...last].map(({ type }) => type),
    arg,
  );

const tileOf = (width: number): WarpTile => ({ warps: 4, across: width > 64 ? 32 : 64, stages: 2 });

const inputs = (...numbers: readonly number[]): StageArgument[] => numbers.map((input) => ({ input }));

/** Compute capability × 10 of Hopper: the only one with wgmma. */
const WARPGROUPS = 90;

/** Whether warpgroups can do it. */
const suitsGroups = (p: AttentionProblem, { capability }: Target): boolean =>
  capability === WARPGROUPS &&
  p.width % 64 === 0 &&
  p.mask === undefined &&
  p.scale > 0 &&
  [p.q, p.k, p.v].every(suitsCopies);

/**
 * The most promising first: as many warpgroups as there are registers for. Heads of 128 features need more of them for a
 * row; two warpgroups leave fewer rows idle at the end and on the diagonal.
 */
const outputTiles = (width: number): readonly GroupTile[] =>
  width > 64
    ? [{ groups: 2, across: 128, stages: 3 }]
    : [
        { groups: 3, across: 128, stages: 4 },
        { groups: 2, across: 128, stages: 4 },
      ];

/**
 * The most promising first: tiles as large as there are registers for. A row of a tile takes one and a quarter of a thread,
 * beside the sums, half of one for each feature of a gradient.
 */
const queryTiles = (width: number): readonly GroupTile[] =>
  width > 64
    ? [
        { groups: 2, across: 96, stages: 3 },
        { groups: 2, across: 64, stages: 4 },
      ]
    : [
        { groups: 2, across: 128, stages: 4 },
        { groups: 3, across: 64, stages: 4 },
      ];

/**
 * The most promising first. Measured on an H200 (2026-11-28) for 4 × 16 heads of 2,048 with 128 features in bf16, in µs with 64
 * queries in turn and with 48: causal 263 and 295, all keys 473 and 521, causal with dropout 336 and 350.
 */
const keyTiles = (width: number): readonly GroupTile[] =>
  width > 64
    ? [
        { groups: 2, across: 64, stages: 4, inTurn: true },
        { groups: 2, across: 48, stages: 4 },
      ]
    : [{ groups: 2, across: 64, stages: 4 }];

/** `warps-64x32`: rows of a block, and of the tiles that they meet. */
const warpsName = ({ warps, across }: WarpTile): string => `warps-${16 * warps}x${across}`;
const groupsName = ({ groups, across }: GroupTile): string => `warpgroups-${64 * groups}x${across}`;

/** Rows of which a warpgroup has not more than one block. */
const FEW = 64;

/** The parameters of results come last, the mask before them. The most promising way first. */
function forwardVariants(
  io: KernelIo,
  arg: AttentionArg,
  results: ForwardResults,
  outs: readonly StageArgument[],
): Variant[] {
  const p = attentionProblem(io, arg);
  const sources = [...inputs(...io.inputs.keys()), ...outs];
  const tile = { ...tileOf(p.width), across: 64 };
  const warps = {
    name: warpsName(tile),
    plan: () => [gridStage(attentionWarps(p, tile, results), ...sources)],
  };
  if (!suitsGroups(p, io.target)) return [warps];
  const groups = outputTiles(p.width).map((tile) => ({
    name: groupsName(tile),
    plan: () => [gridStage(attentionGroups(p, tile, io.target.units, results), ...sources)],
  }));
  return p.queries > FEW ? [...groups, warps] : [warps, ...groups.slice(0, 1)];
}

const LOG_SUM_EXP = 'attentionLogSumExp';
const VALUE_GRADIENT = 'attentionValueGradient';

/** Sources of the kernels may lie in any order of dimensions. */
const ANY = [true, true, true, true];
const ANY_GRADIENT = [true, true, true, true, false, false, true];

function outputVariants(io: KernelIo, arg: AttentionArg): Variant[] {
  const logSumExp = io.also?.has(LOG_SUM_EXP) === true;
  const outs = [{ output: true } as const, ...(logSumExp ? [{ also: LOG_SUM_EXP }] : [])];
  return forwardVariants(io, arg, { output: true, logSumExp }, outs);
}

const logSumExpVariants = (io: KernelIo, arg: AttentionArg): Variant[] =>
  forwardVariants(io, arg, { output: false, logSumExp: true }, [{ output: true }]);

export const attentionChoice: KernelChoice<AttentionArg> = {
  name: 'attention-cuda',
  when: fitsForward,
  strided: ANY,
  copiesNothing: true,
  finishes: false,
  also: [LOG_SUM_EXP],
  variants: outputVariants,
  plan: (io, arg) => outputVariants(io, arg)[0]!.plan(),
};

export const logSumExpChoice: KernelChoice<AttentionArg> = {
  name: 'attentionLogSumExp-cuda',
  when: fitsForward,
  strided: ANY,
  copiesNothing: true,
  finishes: false,
  variants: logSumExpVariants,
  plan: (io, arg) => logSumExpVariants(io, arg)[0]!.plan(),
};

/** The log-sum-exp and the mean come last. */
const gradientInputs = ({ inputs: all }: KernelIo): StageArgument[] => [
  ...inputs(0, 1, 2, 3),
  ...inputs(...all.keys()).slice(6),
  ...inputs(4, 5),
];

function queryGradientVariants(io: KernelIo, arg: AttentionArg): Variant[] {
  const p = gradientProblem(io, arg);
  const sources = [...gradientInputs(io), { output: true } as const];
  const tile = tileOf(p.width);
  const toQ = rowsOf(io.output);
  const warps = {
    name: warpsName(tile),
    plan: () => [gridStage(queryGradientWarps(p, tile, toQ), ...sources)],
  };
  if (!suitsGroups(p, io.target) || !suitsCopies(p.g)) return [warps];
  const groups = queryTiles(p.width).map((tile) => ({
    name: groupsName(tile),
    plan: () => [gridStage(queryGradientGroups(p, tile, io.target.units, toQ), ...sources)],
  }));
  return p.queries > FEW ? [...groups, warps] : [warps, ...groups.slice(0, 1)];
}

export const queryGradientChoice: KernelChoice<AttentionArg> = {
  name: 'attentionQueryGradient-cuda',
  when: fitsGradient,
  strided: ANY_GRADIENT,
  copiesNothing: true,
  finishes: false,
  places: suitsPairs,
  variants: queryGradientVariants,
  plan: (io, arg) => queryGradientVariants(io, arg)[0]!.plan(),
};

function keyValueVariants(io: KernelIo, arg: AttentionArg, toK: boolean): Variant[] {
  const p = gradientProblem(io, arg);
  const output = rowsOf(io.output);
  const values = toK ? io.also?.get(VALUE_GRADIENT) : io.output;
  const results = { toK: toK ? output : undefined, toV: values && rowsOf(values) };
  const outs: StageArgument[] = [
    { output: true },
    ...(results.toK && results.toV ? [{ also: VALUE_GRADIENT }] : []),
  ];
  const sources = [...gradientInputs(io), ...outs];
  const tile = tileOf(p.width);
  const warps = {
    name: warpsName(tile),
    plan: () => [gridStage(keyValueGradientWarps(p, tile, results), ...sources)],
  };
  if (!suitsGroups(p, io.target) || !suitsCopies(p.g)) return [warps];
  const groups = keyTiles(p.width).map((tile) => ({
    name: groupsName(tile),
    plan: () => [gridStage(keyValueGradientGroups(p, tile, io.target.units, results), ...sources)],
  }));
  return p.keys > FEW ? [...groups, warps] : [warps, ...groups.slice(0, 1)];
}

export const keyGradientChoice: KernelChoice<AttentionArg> = {
  name: 'attentionKeyGradient-cuda',
  when: fitsGradient,
  strided: ANY_GRADIENT,
  copiesNothing: true,
  finishes: false,
  places: suitsPairs,
  also: [VALUE_GRADIENT],
  variants: (io, arg) => keyValueVariants(io, arg, true),
  plan: (io, arg) => keyValueVariants(io, arg, true)[0]!.plan(),
};

export const valueGradientChoice: KernelChoice<AttentionArg> = {
  name: 'attentionValueGradient-cuda',
  when: fitsGradient,
  strided: ANY_GRADIENT,
  copiesNothing: true,
  finishes: false,
  places: suitsPairs,
  variants: (io, arg) => keyValueVariants(io, arg, false),
  plan: (io, arg) => keyValueVariants(io, arg, false)[0]!.plan(),
};
