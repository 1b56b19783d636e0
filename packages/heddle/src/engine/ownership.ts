/**
 * Who may change memory. Tensors may have the same values in the same memory: tensors of one node, and equal nodes that
 * were computed together. Whatever changes values in place (jit, `write`, users' kernels) or gives memory back asks
 * here: memory that anybody else can see is left to them, and the tensor goes on with its own memory.
 */
import { leaf } from '../graph/build.js';
import type { GraphNode, TensorType } from '../graph/node.js';
import type { DeviceBuffer } from '../runtime/device.js';
import { bufferOf } from './realize.js';
import { BufferStorage } from './storage.js';
import { type Handle, setOwner } from './trace.js';

/** A computed leaf with these values. */
export function leafOf(
  storage: BufferStorage,
  { shape, dtype }: TensorType,
  requiresGrad: boolean,
): GraphNode {
  const node = leaf(shape, dtype, requiresGrad);
  node.realized(storage);
  return node;
}

/** Let a tensor stand for the values in `storage` from now on. */
export function become(handle: Handle, storage: BufferStorage): void {
  const { type, requiresGrad } = handle.ownNode;
  handle.ownNode = leafOf(storage, type, requiresGrad);
  setOwner(handle.ownNode, handle);
}

/** The memory of a computed tensor, to be changed in place: a copy, if anybody else can see what it has. */
export function ownMemory(handle: Handle): DeviceBuffer {
  if (!handle.ownNode.isPrivate) {
    const shared = bufferOf(handle.ownNode);
    const own = spaceFor(shared);
    copy(shared, own);
    become(handle, own);
  }
  return bufferOf(handle.ownNode);
}

/** The memory of a tensor that nobody else can see change, if it has any. */
export function privateStorage({ ownNode }: Handle): BufferStorage | undefined {
  const { storage } = ownNode;
  return ownNode.isPrivate && storage instanceof BufferStorage && !storage.isReleased ? storage : undefined;
}

/** Memory for a copy of a buffer. */
export const spaceFor = ({ bytes, device }: DeviceBuffer): BufferStorage =>
  new BufferStorage(bytes, 'tensors', device);

export const copy = (from: DeviceBuffer, to: BufferStorage): void =>
  from.device.copy(from, to.buffer, from.bytes);

/** A storage that has been given back. */
let gone: BufferStorage | undefined;

/** Give a tensor's memory back now or, where others have the same values in it, with the last of them. */
export function dispose(handle: Handle): void {
  const own = handle.ownNode;
  const { storage } = own;
  if (!(storage instanceof BufferStorage)) return;
  if (own.tensors <= 1 && storage.nodes <= 1) {
    storage.release();
    return;
  }
  if (!gone) {
    gone = new BufferStorage(0, 'tensors');
    gone.release();
  }
  if (own.tensors > 1) {
    const others = own.tensors - 1;
    handle.ownNode = leafOf(gone, own.type, false);
    own.tensors = others;
  } else {
    storage.nodes--;
    own.realized(gone);
  }
}
