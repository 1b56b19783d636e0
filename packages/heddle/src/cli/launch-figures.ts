/** What one launch of a profile did, besides its time: where it comes from, and how near it is to the roofline. */
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { topological } from '../core/node.js';
import { ARITHMETICS } from '../core/precision.js';
import type { LaunchProfile } from '../engine/profile.js';
import { ASYNCHRONOUS, wgmmaDepth } from '../kernel/ir/asynchronous.js';
import { type Cost, costOfThread } from '../kernel/ir/cost.js';
import type { Node } from '../kernel/ir/ir.js';
import { operandsOf } from '../kernel/ir/operands.js';
import type { Target } from '../kernel/ir/target.js';
import { locationOf } from '../kernel/ir/walk.js';
import { compile } from '../kernel/passes/pipeline.js';
import { type KernelLaunch, type Launch, nameOfLaunch } from '../runtime/device.js';
import type { FusedCall } from '../schedule/launch.js';
import type { Ceilings, ProductKind } from './ceilings.js';
import { rounded } from './figures.js';

export interface LaunchFigures {
  readonly name: string;
  readonly us: number;
  /** Of the sum over all launches. */
  readonly share: number;
  readonly level: number;
  /** Of its sources and results, each once. */
  readonly bytes: number;
  /** Floating-point operations, a multiply-add being two: by the op's definition, else as the kernel's loops say. */
  readonly flops?: number;
  /** What its products are computed in: all but f32 on tensor cores. */
  readonly precision: ProductKind;
  /** The least time that the roofline allows / its time. */
  readonly ofRoofline: number;
  readonly grid?: readonly number[];
  readonly block?: readonly number[];
  readonly sharedBytes?: number;
  /** file:line of the kernel function; absent where the scheduler wrote the kernel, or a library brought it. */
  readonly kernel?: string;
  /** file:line of the calls that asked for its results; ∂ where they are gradients of what was asked for there. */
  readonly origins: readonly string[];
}

/**
 * The figures of all launches of a program, and the ceilings that they are compared with: what is measured of the device,
 * or of a launch where that was faster.
 */
export function figuresOf(
  launches: readonly LaunchProfile[],
  measured: Ceilings,
  target: Target,
): { readonly ceilings: Ceilings; readonly launches: readonly LaunchFigures[] } {
  const total = launches.reduce((sum, { us }) => sum + us, 0);
  const counted = launches.map(({ launch }) => ('kernel' in launch ? countFlops(launch, target) : undefined));
  // What an op says of all its stages is shared out as their loops say; a library's routine does nearly all of it.
  const weights = launches.map(({ launch }, i) => ('library' in launch ? 1e30 : counted[i]!));
  const sums = new Map<FusedCall, number>();
  launches.forEach(({ call }, i) => {
    if (call) sums.set(call, (sums.get(call) ?? 0) + weights[i]!);
  });
  const flops = launches.map(({ call }, i) => {
    const sum = call ? sums.get(call)! : 0;
    return call?.flops === undefined || sum === 0 ? counted[i] : (call.flops * weights[i]!) / sum;
  });
  const products: Partial<Record<ProductKind, number>> = { ...measured.products };
  launches.forEach(({ launch, us }, i) => {
    const precision = precisionOf(launch);
    products[precision] = Math.max(products[precision] ?? 0, rounded((flops[i] ?? 0) / us / 1e3));
  });
  const ceilings = { ...measured, products };
  return {
    ceilings,
    launches: launches.map((profile, i) => {
      // What fits into a cache is copied faster: as fast as any launch of so many bytes.
      const copies = launches.filter(({ bytes }) => bytes >= profile.bytes);
      const copy = Math.max(measured.copy, ...copies.map(({ bytes, us }) => bytes / us / 1e3));
      return figuresOfLaunch(profile, total, flops[i], { ...ceilings, copy });
    }),
  };
}

function figuresOfLaunch(
  { launch, level, bytes, us, origins }: LaunchProfile,
  total: number,
  flops: number | undefined,
  { copy, products }: Ceilings,
): LaunchFigures {
  const kernel = 'kernel' in launch ? launch : undefined;
  const precision = precisionOf(launch);
  const arithmetic = products[precision] ?? products.f32;
  const least = Math.max(bytes / copy, arithmetic ? (flops ?? 0) / arithmetic : 0) / 1e3;
  const source = kernel && locationOf(kernel.kernel);
  return {
    name: nameOfLaunch(launch),
    us,
    share: us / total,
    level,
    bytes,
    ...(flops !== undefined && { flops }),
    precision,
    ofRoofline: least / us,
    ...(kernel && { grid: kernel.grid, block: kernel.block }),
    ...(kernel?.sharedBytes !== undefined && { sharedBytes: kernel.sharedBytes }),
    ...(source && { kernel: `${readable(source.file)}:${source.line}` }),
    origins,
  };
}

/** What tensor cores multiply at once. */
interface TensorProduct {
  readonly precision: ProductKind;
  /** Operations of each of the threads that share it, a multiply-add being two. */
  readonly flops: number;
}

/** Of a warp, m16n8k… */
const warpProduct = (precision: ProductKind, depth: number): TensorProduct => ({
  precision,
  flops: (2 * 16 * 8 * depth) / 32,
});

const WARP_PRODUCTS: Readonly<Record<string, TensorProduct>> = {
  mma: warpProduct('tf32', 8),
  mmaF16: warpProduct('f16', 16),
  mmaBf16: warpProduct('bf16', 16),
  mmaI8: warpProduct('i8', 32),
};

function tensorProductOf(node: Node): TensorProduct | undefined {
  if (node.op === 'intrinsic') return WARP_PRODUCTS[node.arg];
  if (node.op !== 'effect' || node.arg !== 'wgmma') return undefined;
  const [sums, , tile] = operandsOf(ASYNCHRONOUS.wgmma, node.src).places;
  const { dtype } = tile!.memory.type;
  const precision = dtype.name === 'f32' ? 'tf32' : dtype.name === 'u8' ? 'i8' : dtype.name;
  return {
    precision: precision as ProductKind,
    flops: 2 * sums!.memory.type.dims.at(-1)! * wgmmaDepth(dtype.bytes),
  };
}

const FLOPS: Cost = {
  statement: 0,
  countsWhile: true,
  effect: (s) => tensorProductOf(s)?.flops ?? 0,
  expression: (e) => {
    if (e.op === 'intrinsic') return tensorProductOf(e)?.flops ?? 0;
    if (e.op !== 'alu' || e.type.dtype.kind !== 'float') return 0;
    return (e.arg === 'fma' ? 2 : 1) * e.type.lanes;
  },
};

function precisionOf(launch: Launch): ProductKind {
  if ('library' in launch) {
    const { dtype, precision } = launch.library.options;
    const kind = dtype === 'f16' || dtype === 'bf16' ? dtype : precision;
    return ARITHMETICS.find((a) => a === kind) ?? 'f32';
  }
  for (const node of topological<Node>([launch.kernel.body])) {
    const product = tensorProductOf(node);
    if (product) return product.precision;
  }
  return 'f32';
}

/** Arithmetic on floats, of all threads as of the first; a multiply-add is two. */
function countFlops(launch: KernelLaunch, target: Target): number {
  const threads = [...launch.grid, ...launch.block].reduce((n, size) => n * size, 1);
  return threads * costOfThread(compile(launch.kernel, target), launch, FLOPS);
}

/** Relative to the working folder where that is shorter. */
function readable(file: string): string {
  const path = file.startsWith('file:') ? fileURLToPath(file) : file;
  const near = relative(process.cwd(), path);
  return near.length < path.length ? near : path;
}
