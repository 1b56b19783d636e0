/** Record and replay: a traced function as one program whose state is updated in place. */
import { detach, leaf } from '../graph/build.js';
import type { GraphNode, TensorType } from '../graph/node.js';
import type { DeviceBuffer } from '../runtime/device.js';
import { fingerprint } from '../schedule/canonical.js';
import type { Profile, ProfileOptions } from './profile.js';
import { Compiled } from './program.js';
import { bufferOf, realize } from './realize.js';
import { BufferStorage, currentDevice } from './storage.js';
import { type Handle, setOwner, type Trace } from './trace.js';
import { tuning } from './tuner.js';

/** Where a leaf of the program comes from at each run. */
interface Source {
  /** Which argument; −1 for state. */
  readonly input: number;
  readonly state: Handle | undefined;
}

/** One trace of a function, compiled. */
export class Recording {
  readonly #compiled: Compiled;
  readonly #sources: readonly Source[];
  readonly #outputs: readonly TensorType[];
  /** Tensors that a run updates where they are, and the leaves that are their memory. */
  readonly #updated: readonly { readonly handle: Handle; readonly leaf: number }[];
  /** Tensors that a run gives new memory, and the roots that are their values. */
  readonly #moved: readonly { readonly handle: Handle; readonly root: number }[];

  /**
   * @param inputs the stand-ins of the function's arguments
   * @param outputs the nodes it returned
   * @param measure whether kernels may be timed to choose among them
   */
  constructor(trace: Trace, inputs: readonly GraphNode[], outputs: readonly GraphNode[], measure: boolean) {
    const assigned = [...trace.assigned];
    // What is returned as it came is copied, before the program may overwrite it.
    const returned = outputs.map((o) => (o.isLeaf ? detach(o) : o));
    const roots = [...returned, ...assigned.map(([, node]) => node)];
    const { text, leaves } = fingerprint(roots);
    const handles = new Map([...trace.captured].map(([handle, stand]) => [stand, handle]));
    this.#sources = leaves.map((node): Source => {
      const input = inputs.indexOf(node);
      // A tensor made in the trace from host data is the same at every run.
      return { input, state: input >= 0 ? undefined : (handles.get(node) ?? { ownNode: node }) };
    });
    this.#outputs = outputs.map((o) => o.type);
    const updates = new Map<number, number>();
    assigned.forEach(([handle], i) => {
      const at = leaves.indexOf(trace.captured.get(handle)!);
      if (at >= 0) updates.set(outputs.length + i, at);
    });
    const device = currentDevice();
    this.#compiled = new Compiled(roots, leaves.length, device, {
      updates,
      fingerprint: text,
      beside: true,
      ...tuning(device, measure),
    });
    const updated: { handle: Handle; leaf: number }[] = [];
    const moved: { handle: Handle; root: number }[] = [];
    assigned.forEach(([handle], i) => {
      const root = outputs.length + i;
      const place = this.#compiled.schedule.roots[root]!;
      if ('leaf' in place && place.updated) updated.push({ handle, leaf: place.leaf });
      else moved.push({ handle, root });
    });
    this.#updated = updated;
    this.#moved = moved;
  }

  /** Whether nothing is left to compile. */
  get ready(): boolean {
    return this.#compiled.ready;
  }

  get launches(): number {
    return this.#compiled.launches;
  }

  /** Run on these inputs, `times` times; returns leaves with the outputs' values of the last run. */
  run(inputs: readonly GraphNode[], times = 1): GraphNode[] {
    // State that is not updated where it is moves between runs.
    if (times > 1 && this.#moved.length > 0) {
      for (let i = 1; i < times; i++) this.run(inputs);
      return this.run(inputs);
    }
    const nodes = this.#leaves(inputs);
    // What somebody else sees, if only by an argument of this call, keeps its values: it gets a copy of the memory.
    const seen = this.#updated.filter(
      ({ handle: { ownNode } }) => !ownNode.isPrivate || inputs.includes(ownNode),
    );
    const taken = seen.map(({ handle }) => keepOld(handle.ownNode));
    const buffers = nodes.map(bufferOf);
    seen.forEach(({ leaf }, i) => {
      buffers[leaf] = taken[i]!.buffer;
    });
    const results = this.#compiled.run(buffers, 'tensors', true, times);
    const { roots } = this.#compiled.schedule;
    const value = (root: number, type: TensorType, requiresGrad: boolean): GraphNode => {
      const place = roots[root]!;
      if ('result' in place) return leafOf(results[place.result]!, type, requiresGrad);
      return leafOf(copyOf(buffers[place.leaf]!), type, requiresGrad);
    };
    const become = (handle: Handle, node: GraphNode): void => {
      handle.ownNode = node;
      setOwner(node, handle);
    };
    seen.forEach(({ handle }, i) => {
      const { type, requiresGrad } = handle.ownNode;
      become(handle, leafOf(taken[i]!, type, requiresGrad));
    });
    for (const { handle, root } of this.#moved) {
      const { type, requiresGrad } = handle.ownNode;
      become(handle, value(root, type, requiresGrad));
    }
    return this.#outputs.map((type, i) => value(i, type, false));
  }

  /** Run once, then time it, launch by launch if asked. State moves on with every run that is timed. */
  async profile(inputs: readonly GraphNode[], options: ProfileOptions): Promise<Profile> {
    // After a run, nobody else sees the state that is updated in place.
    this.run(inputs);
    return this.#compiled.profile(this.#leaves(inputs).map(bufferOf), options);
  }

  /** The inputs and the state as they are now, in the order of the program's leaves. */
  #leaves(inputs: readonly GraphNode[]): GraphNode[] {
    realize(inputs);
    return this.#sources.map(({ input, state }) => {
      if (!state) return inputs[input]!;
      if (!state.ownNode.storage) realize([state.ownNode]);
      return state.ownNode;
    });
  }

  dispose(): void {
    this.#compiled.dispose();
  }
}

/** Make sure that only this tensor sees its memory, so that it can be written to. */
export function detached(handle: Handle): void {
  const own = handle.ownNode;
  if (own.isPrivate) return;
  handle.ownNode = leafOf(keepOld(own), own.type, own.requiresGrad);
  setOwner(handle.ownNode, handle);
}

/** Others still see this node: give it a copy of its memory, and return the memory, which will be overwritten. */
function keepOld(node: GraphNode): BufferStorage {
  const storage = node.storage as BufferStorage;
  node.storage = copyOf(storage.buffer);
  return storage;
}

function copyOf(buffer: DeviceBuffer): BufferStorage {
  const copy = new BufferStorage(buffer.bytes, 'tensors', buffer.device);
  buffer.device.copy(buffer, copy.buffer, buffer.bytes);
  return copy;
}

function leafOf(storage: BufferStorage, type: TensorType, requiresGrad: boolean): GraphNode {
  const node = leaf(type.shape, type.dtype, requiresGrad);
  node.realized(storage);
  return node;
}
