/** Computing nodes when they are asked for. Programs are kept by the structure of their graphs. */
import { tuning } from '#engine/tuning.js';
import { shown } from '../core/arguments.js';
import { type DType, describeValues, isInteger, isOf, type TypedArray, viewAs } from '../core/dtype.js';
import { ArgumentError, DTypeError, InternalError, ShapeError } from '../core/errors.js';
import { fromBf16, fromF16, toBf16, toF16 } from '../core/float16.js';
import { formatShape, type Shape, sizeOf } from '../core/shape.js';
import { detach, leaf } from '../graph/build.js';
import { isParameter } from '../graph/grad.js';
import { type GraphNode, requireIndexable } from '../graph/node.js';
import type { Device, DeviceBuffer } from '../runtime/device.js';
import { openDevice } from '../runtime/registry.js';
import { fingerprint } from '../schedule/passes/canonical.js';
import { CompiledGraph } from './program.js';
import { BufferStorage, currentDevice, reclaim } from './storage.js';
import { currentTrace, type Handle, setOwner } from './trace.js';

export { ownerOf } from './trace.js';

/** Programs kept for graphs that come again; the oldest goes first. */
const KEPT = 256;
const programs = new Map<string, CompiledGraph>();

/** A loss whose backward pass has been built: computed together with what comes next, from the same activations. */
let remembered: GraphNode | undefined;

export function remember(root: GraphNode): void {
  if (!currentTrace()) remembered = root;
}

let kernels = true;

/** Run `body` with hand-written kernels switched off: everything by its plain composition. The oracle of tests. */
export function withoutKernels<T>(body: () => T): T {
  kernels = false;
  try {
    return body();
  } finally {
    kernels = true;
  }
}

/** The device buffer of a computed node. */
export function bufferOf(node: GraphNode): DeviceBuffer {
  if (!(node.storage instanceof BufferStorage)) {
    throw new ArgumentError(
      'The value of this tensor is not known here: inside jit, values exist only when the step runs. Return it from the function, then await it.',
    );
  }
  return node.storage.buffer;
}

/** The device that a node is on: that of the values it is made from, else the current one. */
function homeOf(node: GraphNode): Device {
  const seen = new Set([node]);
  for (const at of seen) {
    if (at.storage instanceof BufferStorage) return at.storage.device;
    for (const s of at.src) seen.add(s);
  }
  return currentDevice();
}

/**
 * Tensors that have been assigned a value that is not computed yet. The next computation on their device computes
 * them too: a loop that updates a state and asks for something else must not grow the state's graph.
 */
const pending = new Set<Handle>();

function takePending(device: Device): GraphNode[] {
  const nodes: GraphNode[] = [];
  for (const handle of pending) {
    const node = handle.ownNode;
    if (!node.storage && homeOf(node) !== device) continue;
    pending.delete(handle);
    if (!node.storage) nodes.push(node);
  }
  return nodes;
}

/**
 * Compute all of these, on the device that what they are made from is on, and keep their values. What is pending or
 * remembered comes along. Where that fails, those asked for are computed separately: the fault may lie in the others,
 * which meet it again when they are asked for.
 */
export function realize(nodes: readonly GraphNode[]): void {
  const first = nodes.find((n) => !n.storage);
  if (!first) return;
  const asked = new Set(nodes.filter((n) => !n.storage));
  const all = new Set([...asked, ...takePending(homeOf(first))]);
  if (remembered && !remembered.storage) all.add(remembered);
  remembered = undefined;
  try {
    compute([...all]);
  } catch (error) {
    if (all.size === asked.size) throw error;
    compute([...asked]);
  }
}

function compute(roots: readonly GraphNode[]): void {
  const { text, leaves } = fingerprint(roots);
  const buffers = leaves.map(bufferOf);
  const device = buffers[0]?.device ?? currentDevice();
  const key = `${device.name} ${kernels}\n${text}`;
  let compiled = programs.get(key);
  // A device that was closed and opened again is another one.
  if (compiled?.device !== device) {
    compiled = new CompiledGraph(roots, leaves.length, device, {
      kernels,
      fingerprint: text,
      ...tuning(device, false),
    });
    if (programs.size >= KEPT) {
      const [oldest] = programs.keys();
      programs.get(oldest!)!.dispose();
      programs.delete(oldest!);
    }
  }
  programs.delete(key);
  programs.set(key, compiled);
  const results = compiled.run(buffers, 'tensors', false);
  compiled.schedule.roots.forEach((place, i) => {
    // An op that changes nothing has its source's values.
    roots[i]!.realized('result' in place ? results[place.result]! : leaves[place.leaf]!.storage!);
  });
}

/** Where a tensor's values are, and their bytes if they are available without computing or waiting. */
export function glance({ ownNode: node }: Handle): { readonly where: string; readonly bytes?: Uint8Array } {
  const { storage } = node;
  if (currentTrace() || (node.op === 'leaf' && !storage)) return { where: 'within jit' };
  if (!(storage instanceof BufferStorage)) return { where: 'not computed' };
  const { device } = storage;
  if (storage.isReleased) return { where: 'disposed' };
  const bytes = device.peek?.(storage.buffer);
  return bytes ? { where: device.name, bytes } : { where: `${device.name}, await data() for the values` };
}

/** The bytes of a node's values. */
export async function readBytes(node: GraphNode): Promise<Uint8Array> {
  if (node.op === 'leaf' && !node.storage) bufferOf(node);
  realize([node]);
  const buffer = bufferOf(node);
  const bytes = await buffer.device.read(buffer, 0, node.size * node.dtype.bytes);
  await reclaim();
  return bytes;
}

/** The node if its values are on the device `name`, else a computed leaf there that has them. */
export async function copyTo(node: GraphNode, name: string): Promise<GraphNode> {
  const device = openDevice(name);
  realize([node]);
  const { device: from, bytes } = bufferOf(node);
  if (from === device) return node;
  const copied = leaf(node.shape, node.dtype, isParameter(node));
  const storage = new BufferStorage(bytes, 'tensors', device);
  device.write(storage.buffer, await readBytes(node));
  copied.realized(storage);
  return copied;
}

/** Let a tensor stand for another value. */
export function assign(handle: Handle, value: GraphNode): void {
  const node = detach(value, handle.ownNode.requiresGrad);
  const trace = currentTrace();
  if (trace) trace.assign(handle, node);
  else {
    handle.ownNode = node;
    setOwner(node, handle);
    pending.add(handle);
  }
}

/** Let a tensor require a gradient from now on, or no more: it stands for a node of the same values. */
export function startGradients(handle: Handle, on: boolean): void {
  const node = detach(handle.ownNode, on);
  handle.ownNode = node;
  setOwner(node, handle);
  pending.add(handle);
}

/** A computed leaf with these values. */
export function upload(
  values: ArrayLike<number | bigint>,
  shape: Shape,
  dtype: DType,
  requiresGrad = false,
  label = 'tensors',
  device = currentDevice(),
): GraphNode {
  if (values.length !== sizeOf(shape))
    throw new ShapeError(
      `${values.length} values do not fill ${formatShape(shape)}, which has ${sizeOf(shape)} elements.`,
    );
  const node = leaf(shape, dtype, requiresGrad);
  return withMemory(node, (buffer) => device.write(buffer, encode(values, dtype)), label, device);
}

/** The leaf, computed: in memory of its own that `fill` writes. */
export function withMemory(
  node: GraphNode,
  fill: (buffer: DeviceBuffer) => void,
  label = 'tensors',
  device = currentDevice(),
): GraphNode {
  requireIndexable(node.shape);
  const storage = new BufferStorage(node.size * node.dtype.bytes, label, device);
  fill(storage.buffer);
  node.realized(storage);
  return node;
}

/** A computed leaf of zeros. */
export const zeroed = (shape: Shape, dtype: DType, requiresGrad = false): GraphNode =>
  withMemory(leaf(shape, dtype, requiresGrad), (buffer) => buffer.device.clear(buffer));

/** Overwrite a tensor's values from the host. */
export function write(handle: Handle, values: ArrayLike<number | bigint>): void {
  const { shape, size, dtype } = handle.ownNode;
  if (values.length !== size)
    throw new ShapeError(
      `[write] ${values.length} values do not fill ${formatShape(shape)}, which has ${size} elements.`,
    );
  overwrite(handle, (buffer) => buffer.device.write(buffer, encode(values, dtype)));
}

/** Let `fill` write all of a tensor's values: in place if nobody else can see its memory. */
export function overwrite(handle: Handle, fill: (buffer: DeviceBuffer) => void): void {
  const own = handle.ownNode;
  if (currentTrace())
    throw new ArgumentError(
      '[write] is not for traced functions: pass the values as an argument of the jitted function.',
    );
  const buffer = own.storage && bufferOf(own);
  if (buffer && own.isPrivate) {
    fill(buffer);
    return;
  }
  const device = buffer?.device ?? homeOf(own);
  handle.ownNode = withMemory(leaf(own.shape, own.dtype, own.requiresGrad), fill, 'tensors', device);
  setOwner(handle.ownNode, handle);
}

/** Overwrite the elements from `from` on of a tensor that has memory of its own. The others keep what they are. */
export function writePart(handle: Handle, values: ArrayLike<number | bigint>, from = 0): void {
  const own = handle.ownNode;
  const buffer = own.storage && bufferOf(own);
  if (!buffer || !own.isPrivate)
    throw new InternalError('a tensor that is written in part has no own memory');
  buffer.device.write(buffer, encode(values, own.dtype), from * own.dtype.bytes);
}

/**
 * Values as the bytes of a dtype; no copy where they already are.
 * @throws DTypeError for a value that an integer type does not have: it would otherwise be converted silently
 */
export function encode(values: ArrayLike<number | bigint>, dtype: DType): Uint8Array {
  const at = (
    Type: new (a: ArrayLike<number>) => { buffer: ArrayBufferLike; byteOffset: number; byteLength: number },
  ): Uint8Array => {
    requireValues(values, dtype);
    return bytesOf(new Type(numbers(values, dtype)));
  };
  switch (dtype.name) {
    case 'f32':
      return values instanceof Float32Array ? bytesOf(values) : at(Float32Array);
    case 'f64':
      return values instanceof Float64Array ? bytesOf(values) : at(Float64Array);
    case 'i32':
      return values instanceof Int32Array ? bytesOf(values) : at(Int32Array);
    case 'u32':
      return values instanceof Uint32Array ? bytesOf(values) : at(Uint32Array);
    case 'i8':
      return values instanceof Int8Array ? bytesOf(values) : at(Int8Array);
    case 'u8':
      return values instanceof Uint8Array ? values : at(Uint8Array);
    case 'bool':
      return Uint8Array.from(values as ArrayLike<number>, (v) => (v ? 1 : 0));
    case 'i64':
      requireValues(values, dtype);
      return bytesOf(BigInt64Array.from(Array.from(values, (v) => BigInt(v))));
    case 'f16':
      return bytesOf(Uint16Array.from(numbers(values, dtype), toF16));
    case 'bf16':
      return bytesOf(Uint16Array.from(numbers(values, dtype), toBf16));
  }
}

/** Bigints as numbers: those of an integer type have been checked, a float type has none. @throws DTypeError */
function numbers(values: ArrayLike<number | bigint>, dtype: DType): ArrayLike<number> {
  const isBig = (v: unknown): boolean => typeof v === 'bigint';
  const big =
    values instanceof BigInt64Array ? values[0] : Array.isArray(values) ? values.find(isBig) : undefined;
  if (big === undefined) return values as ArrayLike<number>;
  if (isInteger(dtype)) return Array.from(values, Number);
  throw new DTypeError(
    `${shown(big)} cannot be represented as ${dtype.name} (${describeValues(dtype)}). Make a tensor of i64, and .cast(${dtype.name}).`,
  );
}

function requireValues(values: ArrayLike<number | bigint>, dtype: DType): void {
  if (!isInteger(dtype) || (values instanceof Uint8Array && dtype.name !== 'i8')) return;
  if (dtype.name === 'i64' && values instanceof BigInt64Array) return;
  for (let i = 0; i < values.length; i++)
    if (!isOf(dtype, values[i]))
      throw new DTypeError(
        `${shown(values[i])} cannot be represented as ${dtype.name} (${describeValues(dtype)}). tensor(…).cast(${dtype.name}) truncates and saturates.`,
      );
}

/** The values of bytes as a device has them; f16 and bf16 become f32. */
export function decode(bytes: Uint8Array, dtype: DType): TypedArray {
  const raw = viewAs(dtype, bytes.buffer, bytes.byteOffset, bytes.byteLength / dtype.bytes);
  if (dtype.name === 'f16') return Float32Array.from(raw as Uint16Array, fromF16);
  return dtype.name === 'bf16' ? Float32Array.from(raw as Uint16Array, fromBf16) : raw;
}

const bytesOf = (view: { buffer: ArrayBufferLike; byteOffset: number; byteLength: number }): Uint8Array =>
  new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
