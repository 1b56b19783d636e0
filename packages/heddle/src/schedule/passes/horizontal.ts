/**
 * Launches side by side in one: on a GPU, what has next to nothing to do (a bias's gradient, a step's counter) takes some
 * more blocks in the grid of another launch that needs it as little. Larger ones stay apart: each thread would get the
 * registers and each block the shared memory of the one that asks for most.
 */
import { some } from '../../core/node.js';
import { rewrite } from '../../core/rewrite.js';
import { costOfThread, DURATION } from '../../kernel/ir/cost.js';
import type { ArrayDecl, Expr, KernelIr, Node, Param, Statement } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import { GPU, type Target } from '../../kernel/ir/target.js';
import { isBuffer } from '../../kernel/ir/types.js';
import { copyOf } from '../../kernel/ir/walk.js';
import type { FusedCall, Place, PlacedLaunch } from '../launch.js';
import type { Touch } from './needs.js';

/** Blocks per multiprocessor up to which a launch is short of work; larger ones fill the GPU alone. */
const SMALL = 4;
/** Blocks, and instructions of a thread, up to which a launch joins another. */
const GUEST = { blocks: 8, cost: 500 } as const;

interface Part {
  readonly kernel: KernelIr;
  readonly grid: readonly [number, number, number];
  readonly block: readonly [number, number, number];
  readonly args: readonly Place[];
  readonly bytes: number;
  readonly call?: FusedCall | undefined;
  readonly origins?: readonly string[] | undefined;
  /** Of the dynamic shared array. */
  readonly dynamicBytes: number;
  readonly waits: boolean;
  /** Instructions of a thread, roughly: how long a block takes. */
  readonly cost: number;
  readonly touches: readonly Touch[];
}

/** The same launches, with the small ones of a level merged, those apart that await other exchanges. */
export function mergeLaunches(launches: readonly PlacedLaunch[], target: Target): PlacedLaunch[] {
  const merged: PlacedLaunch[] = [];
  for (const level of new Set(launches.map((l) => l.level))) {
    const own = launches.filter((l) => l.level === level);
    for (const awaits of new Set(own.map((l) => l.awaits))) {
      const parts: Part[] = [];
      for (const launch of own.filter((l) => l.awaits === awaits)) {
        const part = partOf(launch, target);
        if (part) parts.push(part);
        else merged.push(launch);
      }
      for (const together of binned(parts, target)) merged.push({ ...mergeParts(together), level, awaits });
    }
  }
  return merged;
}

function partOf({ work, ...rest }: PlacedLaunch, target: Target): Part | undefined {
  if ('library' in work) return undefined;
  const { kernel, grid, block, sharedBytes: dynamicBytes = 0 } = work;
  // Blocks of a cluster count from the first block of the grid.
  if (work.cluster) return undefined;
  // A kernel with tiles fills its multiprocessor.
  if (kernel.lists !== undefined || kernel.arrays.some((a) => a.form)) return undefined;
  if (volume(grid) > SMALL * target.units || staticBytes(kernel.arrays) > GPU.freeSharedBytes)
    return undefined;
  const cost = costOfThread(kernel, { grid, block, args: rest.args }, DURATION);
  return { ...rest, kernel, grid, block, dynamicBytes, waits: waits(kernel.body), cost };
}

/**
 * Bins of parts that fit into one kernel. The dearest part (to the nearest power of 8) comes first, so that its blocks
 * start first, and says how large blocks are; in others' blocks some threads may have nothing to do.
 */
function binned(parts: readonly Part[], target: Target): Part[][] {
  const bins: Part[][] = [];
  const magnitude = (part: Part): number => Math.floor(Math.log2(part.cost) / 3);
  const ordered = [...parts].sort((a, b) => magnitude(b) - magnitude(a) || threadsOf(b) - threadsOf(a));
  for (const part of ordered) {
    const bin = bins.find((b) => fits(part, b, target));
    if (bin) bin.push(part);
    else bins.push([part]);
  }
  return bins;
}

function fits(part: Part, bin: readonly Part[], target: Target): boolean {
  if (volume(part.grid) > GUEST.blocks || part.cost > GUEST.cost) return false;
  const threads = threadsOf(bin[0]!);
  if (threadsOf(part) > threads) return false;
  // Warps meet at a barrier, or nobody does.
  if (threadsOf(part) < threads && part.waits && threadsOf(part) % 32 !== 0) return false;
  const all = [...bin, part];
  const { arrays } = arraysOf(all);
  if (arrays.filter(isDynamic).length > 1 || staticBytes(arrays) > GPU.freeSharedBytes) return false;
  // All blocks run at once: none waits for one that has nothing to do with it.
  const blocks = Math.ceil(all.reduce((n, p) => n + volume(p.grid), 0) / target.units);
  const shared = staticBytes(arrays) + Math.max(...all.map((p) => p.dynamicBytes));
  const { threadsPerMultiprocessor, sharedBytesPerBlock } = target.limits;
  return blocks * threads <= threadsPerMultiprocessor && blocks * shared <= sharedBytesPerBlock;
}

function mergeParts(parts: readonly Part[]): Omit<PlacedLaunch, 'level' | 'awaits'> {
  const [first] = parts as [Part];
  const { kernel, grid, block, args, bytes, call, origins, touches } = first;
  const dynamicBytes = Math.max(...parts.map((p) => p.dynamicBytes));
  const shared = dynamicBytes > 0 ? { sharedBytes: dynamicBytes } : {};
  if (parts.length === 1)
    return { work: { kernel, grid, block, ...shared }, args, bytes, call, origins, touches };
  const threads = threadsOf(first);
  const places = new Map<string, { readonly param: Param; readonly place: Place }>();
  const paramAt = (place: Place, schema: Param['schema']): Param => {
    const key = `${JSON.stringify(place)} ${isBuffer(schema) ? schema.dtype.name : schema.name}`;
    const known = places.get(key);
    if (known) return known.param;
    const param: Param = { name: `p${places.size}`, schema };
    places.set(key, { param, place });
    return param;
  };
  const { arrays, standIn } = arraysOf(parts);
  let from = 0;
  const bodies = parts.map((part): { readonly end: number; readonly body: Statement } => {
    const params = new Map(part.kernel.params.map((p, i) => [p, paramAt(part.args[i]!, p.schema)]));
    const idle = threadsOf(part) < threads;
    // Two parts may be launches of one kernel: each gets variables of its own.
    const inside = rewrite<Node>(copyOf(part.kernel.body), (node) => {
      switch (node.op) {
        case 'buffer':
          return k.bufferParam(params.get(node.arg)!, node.at);
        case 'param':
          return k.scalarParam(params.get(node.arg)!, node.at);
        case 'array':
          return k.arrayNode(standIn.get(node.arg)!, node.at);
        case 'special':
          return specialIn(part, from, node);
        case 'effect':
          return idle && node.arg === 'barrier' ? k.barrier(node.at, threadsOf(part)) : undefined;
        default:
          return undefined;
      }
    }) as Statement;
    from += volume(part.grid);
    const active = k.alu('lt', [k.special('threadIdx.x'), k.int(threadsOf(part))]);
    return { end: from, body: idle ? k.block([k.when(active, inside)]) : inside };
  });
  const body = bodies
    .slice(0, -1)
    .reduceRight(
      (rest, part) =>
        k.block([k.when(k.alu('lt', [k.special('blockIdx.x'), k.int(part.end)]), part.body, rest)]),
      bodies.at(-1)!.body,
    );
  const merged = [...places.values()];
  return {
    work: {
      kernel: {
        name: parts.map((p) => p.kernel.name).join('_and_'),
        params: merged.map((m) => m.param),
        arrays,
        body,
      },
      grid: [from, 1, 1],
      block: [threads, 1, 1],
      ...shared,
    },
    args: merged.map((m) => m.place),
    origins: first.origins && [...new Set(parts.flatMap((p) => p.origins ?? []))],
    bytes: parts.reduce((n, p) => n + p.bytes, 0),
    touches: parts.flatMap((p) => p.touches),
  };
}

/** A block runs one part only: arrays of the same kind serve several. */
function arraysOf(parts: readonly Part[]): {
  readonly arrays: readonly ArrayDecl[];
  readonly standIn: ReadonlyMap<ArrayDecl, ArrayDecl>;
} {
  const arrays: ArrayDecl[] = [];
  const standIn = new Map<ArrayDecl, ArrayDecl>();
  for (const { kernel } of parts) {
    const free = [...arrays];
    for (const array of kernel.arrays) {
      const at = free.findIndex(
        (a) =>
          a.dtype === array.dtype &&
          a.space === array.space &&
          a.lanes === array.lanes &&
          a.dims.join() === array.dims.join(),
      );
      if (at < 0) arrays.push(array);
      standIn.set(array, at < 0 ? array : free.splice(at, 1)[0]!);
    }
  }
  return { arrays, standIn };
}

/** What a part finds for its coordinates, in a grid and blocks of one dimension. */
function specialIn({ grid, block }: Part, from: number, node: Extract<Node, { op: 'special' }>): Expr {
  const [what, axis] = node.arg.split('.') as [string, 'x' | 'y' | 'z'];
  const at = { x: 0, y: 1, z: 2 }[axis];
  switch (what) {
    case 'blockIdx': {
      const index = k.special('blockIdx.x', node.at);
      return digit(from === 0 ? index : k.alu('sub', [index, k.int(from)], node.at), grid, at);
    }
    case 'threadIdx':
      return digit(k.special('threadIdx.x', node.at), block, at);
    case 'gridDim':
      return k.int(grid[at]!);
    case 'blockDim':
      return k.int(block[at]!);
    default:
      return node;
  }
}

/** Digit `at` of a number whose radices are `sizes`, the first the lowest. */
function digit(number: Expr, sizes: readonly [number, number, number], at: number): Expr {
  if (sizes[at] === 1) return k.int(0);
  const below = sizes.slice(0, at).reduce((n, d) => n * d, 1);
  const above = sizes.slice(at + 1).reduce((n, d) => n * d, 1);
  const shifted = below === 1 ? number : k.alu('idiv', [number, k.int(below)]);
  return above === 1 ? shifted : k.alu('mod', [shifted, k.int(sizes[at]!)]);
}

const volume = ([x, y, z]: readonly [number, number, number]): number => x * y * z;
const threadsOf = (part: Part): number => volume(part.block);
const isDynamic = (a: ArrayDecl): boolean => a.space === 'shared' && a.dims[0] === -1;
const staticBytes = (arrays: readonly ArrayDecl[]): number =>
  arrays
    .filter((a) => a.space === 'shared' && !isDynamic(a))
    .reduce((n, a) => n + a.dims.reduce((m, d) => m * d, 1) * a.lanes * a.dtype.bytes, 0);

/** Whether threads of a block wait for each other. */
const waits = (body: Statement): boolean =>
  some<Node>([body], (node) => node.op === 'effect' && node.arg === 'barrier');
