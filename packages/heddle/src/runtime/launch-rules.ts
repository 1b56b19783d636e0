/** What a launch may ask for, by the same rules on every device: those of a GPU. */
import { requireObject, shown, unknownName } from '../core/arguments.js';
import { describeValues, isOf } from '../core/dtype.js';
import { ArgumentError, DTypeError, InternalError } from '../core/errors.js';
import { sizeOf } from '../core/shape.js';
import type { ArrayDecl, KernelIr, Param } from '../kernel/ir/ir.js';
import type { Scalar } from '../kernel/ir/ops.js';
import { GPU, H200 } from '../kernel/ir/target.js';
import { isBuffer } from '../kernel/ir/types.js';
import type { Dim3 } from './device.js';

/** A grid or block: x alone, or x, y and z where given. */
export type Extent = number | readonly [x: number, y?: number, z?: number];

/** The size of a launch. */
export interface LaunchConfig {
  /**
   * Blocks: whole numbers from 1 on, at most 2³¹ − 1 along x and 65535 along y and z. A grid of 0 blocks is refused, as
   * CUDA refuses it: where there may be nothing to do, do not launch.
   */
  readonly grid: Extent;
  /** Threads of a block: whole numbers from 1 on, at most 1024 in all, and 64 along z. */
  readonly block: Extent;
  /** Bytes of the dynamic shared array, if the kernel has one. */
  readonly sharedBytes?: number;
  /** Blocks of a thread-block cluster, at most 8, whose extents divide the grid's. Default: 1. */
  readonly cluster?: Extent;
}

/** What a launch says about each block. */
export type BlockConfig = Pick<LaunchConfig, 'block' | 'sharedBytes'>;

/** A launch's sizes, checked. */
export interface LaunchSizes {
  readonly grid: Dim3;
  readonly block: Dim3;
  readonly sharedBytes: number;
  readonly cluster: Dim3 | undefined;
}

/**
 * The sizes of a user's launch.
 * @param known the names that `config` may have
 * @throws ArgumentError for sizes that no GPU takes, and for what is missing or unknown
 */
export function launchSizes(
  ir: KernelIr,
  config: LaunchConfig,
  known: readonly string[] = ['grid', 'block', 'sharedBytes', 'cluster'],
): LaunchSizes {
  const { name } = ir;
  requireKnown(name, config, known);
  const grid = extentOf(name, 'grid', config.grid);
  const block = extentOf(name, 'block', config.block);
  const cluster = config.cluster === undefined ? undefined : extentOf(name, 'cluster', config.cluster);
  requireSizes(name, { grid, block, cluster });
  return { grid, block, sharedBytes: sharedBytesOf(ir, config), cluster };
}

/**
 * The sizes of one block, for questions about a kernel that no launch belongs to.
 * @throws ArgumentError for what a launch's block and shared memory may not be, and for other names
 */
export function blockSizes(
  ir: KernelIr,
  config: BlockConfig,
): { readonly block: Dim3; readonly sharedBytes: number } {
  const block = blockOf(ir, config, ['block', 'sharedBytes']);
  return { block, sharedBytes: sharedBytesOf(ir, config) };
}

/** @throws ArgumentError for what a launch's block may not be, and for names other than `known` */
export function blockOf(
  { name }: KernelIr,
  config: Pick<BlockConfig, 'block'>,
  known: readonly string[] = ['block'],
): Dim3 {
  requireKnown(name, config, known);
  const block = extentOf(name, 'block', config.block);
  requireSizes(name, { grid: [1, 1, 1], block, cluster: undefined });
  return block;
}

/** @throws ArgumentError unless it is an object with none but the names of `known` */
function requireKnown(kernel: string, config: object, known: readonly string[]): void {
  requireObject(kernel, config, known);
  for (const key of Object.keys(config))
    if (!known.includes(key)) throw new ArgumentError(unknownName(kernel, 'option', key, known));
}

/** @throws ArgumentError unless a block can have that much, and the kernel takes it */
function sharedBytesOf(ir: KernelIr, { sharedBytes = 0 }: Pick<BlockConfig, 'sharedBytes'>): number {
  if (!Number.isInteger(sharedBytes) || sharedBytes < 0)
    throw new ArgumentError(`[${ir.name}] sharedBytes is ${shown(sharedBytes)}, must be an integer ≥ 0.`);
  requireShared(ir, sharedBytes);
  return sharedBytes;
}

/** The three sizes of an extent. @throws ArgumentError unless they are whole numbers from 1 on */
function extentOf(kernel: string, what: 'grid' | 'block' | 'cluster', given: Extent): Dim3 {
  if (given === undefined)
    throw new ArgumentError(`[${kernel}] ${what} is missing: pass { grid: 4, block: 256 }.`);
  const [x, y = 1, z = 1] = Array.isArray(given) ? given : [given];
  if (![x, y, z].every((n) => Number.isInteger(n) && n >= 1) || (Array.isArray(given) && given.length > 3))
    throw new ArgumentError(
      `[${kernel}] ${what} (${(Array.isArray(given) ? given : [x, y, z]).map((n) => shown(n)).join(', ')}): one to three whole numbers ≥ 1.` +
        (x === 0 ? ' Where there is nothing to do, do not launch.' : ''),
    );
  return [x, y, z];
}

/** @throws ArgumentError for more blocks or threads than a GPU takes, or a cluster that does not fit into the grid */
export function requireSizes(
  kernel: string,
  { grid, block, cluster }: Pick<LaunchSizes, 'grid' | 'block' | 'cluster'>,
): void {
  const threads = block[0] * block[1] * block[2];
  if (threads > GPU.threadsPerBlock || block[2] > GPU.block[2])
    throw new ArgumentError(
      `[${kernel}] block (${block.join(', ')}) has ${threads} threads: a GPU's has at most ${GPU.threadsPerBlock}, and ` +
        `${GPU.block[2]} along z. Use a smaller block and a larger grid.`,
    );
  if (grid.some((n, i) => n > GPU.grid[i]!))
    throw new ArgumentError(
      `[${kernel}] grid (${grid.join(', ')}): a GPU's is at most ${GPU.grid.join(' × ')}. Put the largest extent first.`,
    );
  if (!cluster) return;
  const blocks = cluster[0] * cluster[1] * cluster[2];
  if (blocks > GPU.blocksPerCluster)
    throw new ArgumentError(
      `[${kernel}] cluster (${cluster.join(', ')}) has ${blocks} blocks: at most ${GPU.blocksPerCluster}.`,
    );
  if (grid.some((n, i) => n % cluster[i]! !== 0))
    throw new ArgumentError(
      `[${kernel}] cluster (${cluster.join(', ')}) does not divide grid (${grid.join(', ')}): round the grid up.`,
    );
}

/** Elements of an array of `decl`'s sizes, the dynamic one by the bytes given at launch. */
export const elementsOf = (decl: ArrayDecl, dynamicBytes = 0): number =>
  decl.dims[0] === -1 ? Math.floor(dynamicBytes / (decl.dtype.bytes * decl.lanes)) : sizeOf(decl.dims);

/** @throws ArgumentError unless the shared arrays have their memory, and a block as much */
function requireShared(ir: KernelIr, sharedBytes: number): void {
  const shared = ir.arrays.filter((a) => a.space === 'shared');
  const dynamic = shared.find((a) => a.dims[0] === -1);
  if (dynamic && sharedBytes === 0)
    throw new ArgumentError(
      `[${ir.name}] ${dynamic.name} is a dynamicShared array: give its size at launch as sharedBytes.`,
    );
  if (!dynamic && sharedBytes > 0)
    throw new ArgumentError(
      `[${ir.name}] has no dynamicShared array, which sharedBytes is the size of: leave it out, or declare one.`,
    );
  // Dynamic arrays are the same memory.
  const apart = shared.filter((a) => a.dims[0] !== -1 || a === dynamic);
  const sizes = apart.map((a) => ({
    a,
    bytes: elementsOf(a, sharedBytes) * a.lanes * a.dtype.bytes,
  }));
  const bytes = sizes.reduce((sum, s) => sum + s.bytes, 0);
  if (bytes > H200.limits.sharedBytesPerBlock)
    throw new ArgumentError(
      `[${ir.name}] takes ${bytes} bytes of shared memory per block (${sizes.map((s) => `${s.a.name} ${s.bytes}`).join(', ')}): ` +
        `at most ${H200.limits.sharedBytesPerBlock}, on many GPUs less.`,
    );
}

/** @throws ArgumentError unless there is an argument for each parameter, and no other */
export function requireNames(ir: KernelIr, args: object): void {
  const names = ir.params.map((p) => p.name);
  const given = typeof args === 'object' && args !== null ? (args as Readonly<Record<string, unknown>>) : {};
  for (const name of names)
    if (given[name] === undefined) throw new ArgumentError(`[${ir.name}] the argument ${name} is missing.`);
  for (const name of Object.keys(given)) {
    if (!names.includes(name)) throw new ArgumentError(unknownName(ir.name, 'parameter', name, names));
  }
}

/** What a parameter that is not a buffer is given. @throws DTypeError unless it has the parameter's dtype */
export function requireScalar(ir: KernelIr, { name, schema }: Param, given: unknown): Scalar {
  if (isBuffer(schema)) throw new InternalError(`${name} is a buffer, not a scalar`);
  if (isOf(schema, given)) {
    if (schema.name === 'i64') return BigInt(given);
    return typeof given === 'bigint' ? Number(given) : given;
  }
  throw new DTypeError(
    `[${ir.name}] ${name} is a scalar, ${schema.name}: pass ${describeValues(schema)}, got ${shown(given)}.`,
  );
}
