/** Launching a user's kernel on the current device, on the memory of tensors or on raw memory. */
import { print } from '#platform/process.js';
import { type DType, type TypedArray, viewAs } from '../core/dtype.js';
import { ArgumentError } from '../core/errors.js';
import { once } from '../core/log.js';
import { scalarText } from '../kernel/ir/fingerprint.js';
import type { KernelIr } from '../kernel/ir/ir.js';
import type { Scalar } from '../kernel/ir/ops.js';
import { isBuffer } from '../kernel/ir/types.js';
import { NotSerialized } from '../kernel/serialize/serialize.js';
import type { Device, DeviceBuffer, Launch, Program, Stream } from '../runtime/device.js';
import { type LaunchConfig, launchSizes } from '../runtime/launch-rules.js';
import { simulate } from '../runtime/sim/launch.js';
import { requireSame } from '../runtime/stream.js';
import { DeviceArray } from './device-array.js';
import { type KernelArgument, orderArguments, writtenBy } from './launch-arguments.js';
import { ownMemory } from './ownership.js';
import { bufferOf, realize } from './realize.js';
import { currentDevice, requireOn } from './storage.js';
import { currentTrace, type Handle } from './trace.js';

export type { LaunchConfig } from '../runtime/launch-rules.js';

/** The size of a launch, and the stream that it is queued on. */
export interface LaunchOptions extends LaunchConfig {
  /** Default: in order with tensors' work. */
  readonly stream?: Stream;
}

const KNOWN = ['grid', 'block', 'sharedBytes', 'cluster', 'stream'];

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

/** Run a kernel. Every error is a rejection of the promise; inside `jit` it ends the trace as well. */
export function launch(
  ir: KernelIr,
  config: LaunchOptions,
  args: Readonly<Record<string, KernelArgument>>,
): Promise<void> {
  const trace = currentTrace();
  if (!trace) return launchNow(ir, config, args);
  const error = new ArgumentError(
    `[${ir.name}] a kernel cannot be launched inside a jitted function: the function runs once, to record its ` +
      'operations on tensors, and a launch is not one of them. Use apply, or launch it before or after the call.',
  );
  trace.fail(error);
  const rejected = Promise.reject(error);
  // The trace throws it.
  rejected.catch(() => {});
  return rejected;
}

async function launchNow(
  ir: KernelIr,
  config: LaunchOptions,
  given: Readonly<Record<string, KernelArgument>>,
): Promise<void> {
  const { grid, block, sharedBytes, cluster } = launchSizes(ir, config, KNOWN);
  const { args, scalars, memory, changed } = orderArguments(ir, given);
  realize(memory.flatMap((m) => (m instanceof DeviceArray ? [] : [m.ownNode])));
  changed.forEach(ownMemory);
  const buffers = memory.map((m) => (m instanceof DeviceArray ? m.buffer : bufferOf(m.ownNode)));
  const device = buffers[0]?.device ?? currentDevice();
  requireOn(device, buffers);
  if (config.stream !== undefined) requireSame(device, 'stream', config.stream);
  const known = preparedFor(device, ir);
  const shape = `${grid} ${block} ${sharedBytes} ${cluster ?? ''}`;
  const exact = `${shape} ${scalars.map(scalarText).join(' ')}`;
  let program = known.get(shape) ?? known.get(exact);
  if (!program) {
    program = compiled(device, {
      kernel: ir,
      grid,
      block,
      args,
      ...(sharedBytes > 0 && { sharedBytes }),
      ...(cluster && { cluster }),
    });
    if (known.size >= KEPT) forgetOldest(known);
    known.set('setScalar' in program ? shape : exact, program);
  } else if ('run' in program && program.setScalar) {
    for (const [i, arg] of args.entries()) if ('value' in arg) program.setScalar(0, i, arg.value);
  }
  if ('run' in program) program.run(buffers, 1, config.stream);
  else {
    once(`kernel ${ir.name} runs in the simulator, slowly: ${program.reason}`);
    const { stream: _, ...sizes } = config;
    await inSimulator(ir, sizes, given, buffers);
  }
}

function compiled(device: Device, launch: Launch): Prepared {
  try {
    return device.compile([launch]);
  } catch (error) {
    if (error instanceof NotSerialized) return error;
    throw error;
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
  config: LaunchConfig,
  args: Readonly<Record<string, KernelArgument>>,
  buffers: readonly DeviceBuffer[],
): Promise<void> {
  const written = writtenBy(ir);
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
  for (const line of simulate(ir, config, values).prints) print(line);
  for (const { buffer, bytes } of back) buffer.device.write(buffer, bytes);
}

const sizeOf = (given: Handle | DeviceArray): { readonly size: number; readonly dtype: DType } =>
  given instanceof DeviceArray ? { size: given.length, dtype: given.dtype } : given.ownNode;
