/** Launching a user's kernel on the current device, on the memory of tensors or memory by itself. */
import { type DType, describeValues, isOf, type TypedArray, viewAs } from '../core/dtype.js';
import { ArgumentError, DTypeError } from '../core/errors.js';
import { once } from '../core/log.js';
import { scalarText } from '../kernel/fingerprint.js';
import type { KernelIr, Node, Param } from '../kernel/ir.js';
import type { Scalar } from '../kernel/ops.js';
import { serialize } from '../kernel/serialize.js';
import { isBuffer } from '../kernel/types.js';
import {
  type Device,
  type DeviceBuffer,
  type Dim3,
  type Launch,
  type LaunchArgument,
  type Program,
  requireClusters,
} from '../runtime/device.js';
import { type LaunchConfig, simulate } from '../runtime/sim/launch.js';
import { requireSame, type Stream } from '../runtime/stream.js';
import { DeviceArray } from './device-array.js';
import { ownMemory } from './ownership.js';
import { bufferOf, realize } from './realize.js';
import { currentDevice, requireOn } from './storage.js';
import type { Handle } from './trace.js';

export type { LaunchConfig } from '../runtime/sim/launch.js';

export interface LaunchOptions extends LaunchConfig {
  /** Default: in order with tensors' work. */
  readonly stream?: Stream;
}

/** What a parameter is given: a number or boolean, or the memory that a buffer parameter is. */
export type KernelArgument = Scalar | Handle | DeviceArray;

/** A launch, compiled; or why the CPU cannot run it but in the simulator. */
type Prepared = Program | { readonly reason: string };

/** Launches kept per kernel: one per grid and block, and scalars where these are compiled in. */
const KEPT = 64;
const prepared = new WeakMap<Device, WeakMap<KernelIr, Map<string, Prepared>>>();

function preparedFor(device: Device, ir: KernelIr): Map<string, Prepared> {
  const ofDevice = prepared.get(device) ?? new WeakMap<KernelIr, Map<string, Prepared>>();
  prepared.set(device, ofDevice);
  const known = ofDevice.get(ir) ?? new Map<string, Prepared>();
  ofDevice.set(ir, known);
  return known;
}

export async function launch(
  ir: KernelIr,
  config: LaunchOptions,
  args: Readonly<Record<string, KernelArgument>>,
): Promise<void> {
  const [grid, block] = [extent(ir, 'grid', config.grid), extent(ir, 'block', config.block)];
  const cluster = config.cluster === undefined ? undefined : extent(ir, 'cluster', config.cluster);
  if (cluster) requireClusters(ir.name, cluster, grid);
  const written = writtenBy(ir);
  const memory: (Handle | DeviceArray)[] = [];
  const changed: Handle[] = [];
  const scalars: Record<string, Scalar> = {};
  const ordered = ir.params.map((param): LaunchArgument => {
    const given = args[param.name];
    if (given === undefined) throw new ArgumentError(`[${ir.name}] the argument ${param.name} is missing.`);
    if (!isBuffer(param.schema)) {
      if (!isOf(param.schema, given))
        throw new DTypeError(
          `[${ir.name}] ${param.name} is a ${param.schema.name}: pass ${describeValues(param.schema)}, got ${typeof given === 'object' && given ? 'a buffer' : String(given)}.`,
        );
      scalars[param.name] = given;
      return { value: given };
    }
    if (typeof given !== 'object')
      throw new DTypeError(
        `[${ir.name}] ${param.name} is a buffer of ${param.schema.dtype.name}: pass a tensor, got ${given}.`,
      );
    const { dtype } = given instanceof DeviceArray ? given : given.ownNode;
    if (dtype !== param.schema.dtype) {
      const got =
        given instanceof DeviceArray
          ? `memory of ${dtype.name}. Use allocate(${param.schema.dtype.name}, …).`
          : `a tensor of ${dtype.name}. Convert with .cast(${param.schema.dtype.name}).`;
      throw new DTypeError(
        `[${ir.name}] ${param.name} is a buffer of ${param.schema.dtype.name}, got ${got}`,
      );
    }
    memory.push(given);
    if (written.has(param) && !(given instanceof DeviceArray)) changed.push(given);
    return { slot: memory.length - 1, offset: 0 };
  });
  for (const name of Object.keys(args)) {
    if (!ir.params.some((p) => p.name === name))
      throw new ArgumentError(
        `[${ir.name}] has no parameter ${name}: its parameters are ${ir.params.map((p) => p.name).join(', ')}.`,
      );
  }

  realize(memory.flatMap((m) => (m instanceof DeviceArray ? [] : [m.ownNode])));
  changed.forEach(ownMemory);
  const buffers = memory.map((m) => (m instanceof DeviceArray ? m.buffer : bufferOf(m.ownNode)));
  const device = buffers[0]?.device ?? currentDevice();
  requireOn(device, buffers);
  if (config.stream) requireSame(device, 'stream', config.stream);
  const known = preparedFor(device, ir);
  const shape = `${grid} ${block} ${config.sharedBytes ?? 0} ${cluster ?? ''}`;
  const exact = `${shape} ${Object.values(scalars).map(scalarText).join(' ')}`;
  let program = known.get(shape) ?? known.get(exact);
  if (!program) {
    const base: Launch = {
      kernel: ir,
      grid,
      block,
      args: ordered,
      independent: false,
      ...(config.sharedBytes === undefined ? {} : { sharedBytes: config.sharedBytes }),
      ...(cluster && { cluster }),
    };
    const serial = device.target.model === 'blocks' ? serialize(ir, block) : ir;
    program =
      'reason' in serial
        ? serial
        : device.compile([serial === ir ? base : { ...base, kernel: serial, block: [1, 1, 1] }]);
    if (known.size >= KEPT) forgetOldest(known);
    known.set('setScalar' in program ? shape : exact, program);
  } else if ('run' in program && program.setScalar) {
    for (const [i, arg] of ordered.entries()) if ('value' in arg) program.setScalar(0, i, arg.value);
  }
  if ('run' in program) program.run(buffers, 1, config.stream);
  else {
    once(`kernel ${ir.name} runs in the simulator, slowly: ${program.reason}`);
    await inSimulator(ir, config, args, buffers, written);
  }
}

function forgetOldest(known: Map<string, Prepared>): void {
  const [oldest] = known;
  if (!oldest) return;
  if ('run' in oldest[1]) oldest[1].dispose();
  known.delete(oldest[0]);
}

/** Copy out, simulate, copy what was written back. */
async function inSimulator(
  ir: KernelIr,
  config: LaunchOptions,
  args: Readonly<Record<string, KernelArgument>>,
  buffers: readonly DeviceBuffer[],
  written: ReadonlySet<Param>,
): Promise<void> {
  const values: Record<string, TypedArray | Scalar> = {};
  const back: { buffer: DeviceBuffer; bytes: Uint8Array }[] = [];
  let slot = 0;
  for (const param of ir.params) {
    const given = args[param.name]!;
    if (!isBuffer(param.schema)) values[param.name] = given as Scalar;
    else {
      const buffer = buffers[slot++]!;
      const { size, dtype } = sizeOf(given as Handle | DeviceArray);
      const bytes = await buffer.device.read(buffer, 0, size * dtype.bytes);
      values[param.name] = viewAs(dtype, bytes.buffer, bytes.byteOffset, size);
      if (written.has(param)) back.push({ buffer, bytes });
    }
  }
  for (const line of simulate(ir, config, values).prints) process.stdout.write(`${line}\n`);
  for (const { buffer, bytes } of back) buffer.device.write(buffer, bytes);
}

const sizeOf = (given: Handle | DeviceArray): { readonly size: number; readonly dtype: DType } =>
  given instanceof DeviceArray ? { size: given.length, dtype: given.dtype } : given.ownNode;

/** Buffer parameters that a kernel stores to. */
function writtenBy(ir: KernelIr): Set<Param> {
  const written = new Set<Param>();
  const visit = (node: Node): void => {
    if (node.op === 'store' || node.op === 'intrinsic') {
      const memory = node.src[0];
      if (memory?.op === 'buffer') written.add(memory.arg);
    }
    node.src.forEach(visit);
  };
  visit(ir.body);
  return written;
}

function extent(ir: KernelIr, name: string, given: LaunchConfig['grid']): Dim3 {
  const [x, y = 1, z = 1] = typeof given === 'number' ? [given] : given;
  if ([x, y, z].some((n) => !Number.isInteger(n) || n < 1))
    throw new ArgumentError(`[${ir.name}] ${name} (${[x, y, z].join(', ')}): sizes are whole numbers ≥ 1.`);
  return [x, y, z];
}
