/** What one launch of a profile did, beside its time: where it comes from, and how near it is to the roofline. */
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Location } from '../core/errors.js';
import type { LaunchProfile } from '../engine/profile.js';
import { compile } from '../kernel/compile.js';
import type { KernelIr, Node } from '../kernel/ir.js';
import type { Target } from '../kernel/target.js';
import { type KernelLaunch, nameOfLaunch } from '../runtime/device.js';
import { type Cost, costOfThread } from '../runtime/launch-cost.js';
import type { FusedCall } from '../schedule/schedule.js';

/** What the device reaches: bytes and floating-point operations in a µs. */
export interface Roofline {
  readonly bytesPerUs: number;
  readonly flopsPerUs: number;
}

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
  /** The least time that the roofline allows / its time. */
  readonly ofRoofline: number;
  readonly grid?: readonly number[];
  readonly block?: readonly number[];
  readonly sharedBytes?: number;
  /** file:line of the kernel function; absent where the scheduler wrote the kernel. */
  readonly origin?: string;
}

/** The figures of all launches of a program. */
export function figuresOf(
  launches: readonly LaunchProfile[],
  roofline: Roofline,
  target: Target,
): LaunchFigures[] {
  const total = launches.reduce((sum, { us }) => sum + us, 0);
  const counted = launches.map(({ launch }) => ('kernel' in launch ? countFlops(launch, target) : undefined));
  // What an op says of all its stages is shared out as their loops say.
  const sums = new Map<FusedCall, number>();
  launches.forEach(({ call }, i) => {
    if (call) sums.set(call, (sums.get(call) ?? 0) + (counted[i] ?? 1));
  });
  return launches.map((profile, i) => {
    const { call } = profile;
    const known = call?.flops;
    const sum = call ? sums.get(call)! : 0;
    const flops = known === undefined || sum === 0 ? counted[i] : (known * (counted[i] ?? 1)) / sum;
    return figuresOfLaunch(profile, total, flops, roofline);
  });
}

function figuresOfLaunch(
  { launch, level, bytes, us }: LaunchProfile,
  total: number,
  flops: number | undefined,
  { bytesPerUs, flopsPerUs }: Roofline,
): LaunchFigures {
  const kernel = 'kernel' in launch ? launch : undefined;
  const least = Math.max(bytes / bytesPerUs, (flops ?? 0) / flopsPerUs);
  const origin = kernel && originOf(kernel.kernel);
  return {
    name: nameOfLaunch(launch),
    us,
    share: us / total,
    level,
    bytes,
    ...(flops !== undefined && { flops }),
    ofRoofline: least / us,
    ...(kernel && { grid: kernel.grid, block: kernel.block }),
    ...(kernel?.sharedBytes !== undefined && { sharedBytes: kernel.sharedBytes }),
    ...(origin && { origin: `${readable(origin.file)}:${origin.line}` }),
  };
}

const FLOPS: Cost = {
  statement: 0,
  expression: (e) => {
    if (e.op !== 'alu' || e.type.dtype.kind !== 'float') return 0;
    return (e.arg === 'fma' ? 2 : 1) * e.type.lanes;
  },
};

/** Arithmetic on floats, of all threads as of the first; a multiply-add is two. */
function countFlops(launch: KernelLaunch, target: Target): number {
  const threads = [...launch.grid, ...launch.block].reduce((n, size) => n * size, 1);
  return threads * costOfThread(compile(launch.kernel, target), launch, FLOPS);
}

/** The first place of an author's source that the kernel comes from. */
function originOf(kernel: KernelIr): Location | undefined {
  const seen = new Set<Node>();
  const find = (node: Node): Location | undefined => {
    if (seen.has(node)) return undefined;
    seen.add(node);
    if (node.at) return node.at;
    for (const source of node.src) {
      const at = find(source);
      if (at) return at;
    }
    return undefined;
  };
  return find(kernel.body);
}

/** Relative to the working folder where that is shorter. */
function readable(file: string): string {
  const path = file.startsWith('file:') ? fileURLToPath(file) : file;
  const near = relative(process.cwd(), path);
  return near.length < path.length ? near : path;
}
