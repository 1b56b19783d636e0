/** Record and replay: a traced function as one program whose state is updated in place. */
import { tuning } from '#engine/tuning.js';
import { ArgumentError } from '../core/errors.js';
import { holding } from '../core/holding.js';
import { formatShape } from '../core/shape.js';
import { detach } from '../graph/build.js';
import type { GraphNode, TensorType } from '../graph/node.js';
import { fingerprint } from '../schedule/passes/canonical.js';
import { become, copy, leafOf, ownMemory, privateStorage, spaceFor } from './ownership.js';
import type { Profile, ProfileOptions } from './profile.js';
import { CompiledGraph } from './program.js';
import { bufferOf, realize } from './realize.js';
import { type BufferStorage, currentDevice } from './storage.js';
import type { Handle, Trace } from './trace.js';

/** Where a leaf of the program comes from at each run. */
interface Source {
  /** Which argument; −1 for state. */
  readonly input: number;
  readonly state: Handle | undefined;
}

/** One trace of a function, compiled. */
export class Recording {
  readonly #compiled: CompiledGraph;
  readonly #sources: readonly Source[];
  readonly #outputs: readonly TensorType[];
  /** Tensors that a run updates where they are, and the leaves that are their memory. */
  readonly #updated: readonly { readonly handle: Handle; readonly leaf: number }[];
  /** Tensors that are assigned other values than those, and the roots that are these values. */
  readonly #moved: readonly { readonly handle: Handle; readonly root: number }[];
  /** Values that are a leaf's, and are copied after a run. */
  readonly #copied: readonly { readonly root: number; readonly leaf: number }[];
  readonly #assigned: ReadonlySet<Handle>;

  /**
   * @param outputs the nodes it returned
   * @param measure whether kernels may be timed to choose among them
   */
  constructor(trace: Trace, outputs: readonly GraphNode[], measure: boolean) {
    const inputs = trace.inputs.map((stand) => stand.ownNode);
    const assigned = [...trace.assigned];
    this.#assigned = new Set(trace.assigned.keys());
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
    this.#compiled = new CompiledGraph(roots, leaves.length, device, {
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
    this.#copied = this.#compiled.schedule.roots.flatMap((place, root) =>
      'leaf' in place && !place.updated ? [{ root, leaf: place.leaf }] : [],
    );
  }

  /** Whether nothing is left to compile. */
  get ready(): boolean {
    return this.#compiled.ready;
  }

  get launches(): number {
    return this.#compiled.launches;
  }

  /**
   * @throws ArgumentError for an argument that the function assigns, too: which of its uses mean the argument, and which
   * the state, differs from call to call, and the program is the same for all
   */
  requireApart(inputs: readonly Handle[]): void {
    const at = inputs.findIndex((t) => this.#assigned.has(t));
    if (at >= 0)
      throw new ArgumentError(
        `[jit] tensor ${at + 1} of the arguments, ${formatShape(inputs[at]!.ownNode.shape)}, is also assigned by the function. ` +
          'Either use it from outside only, or pass its values: x.detach().',
      );
  }

  /** Run on these inputs, `times` times; returns leaves with the outputs' values of the last run. */
  run(inputs: readonly GraphNode[], times = 1): GraphNode[] {
    // State that is not updated where it is moves between runs.
    if (times > 1 && this.#moved.length > 0) {
      for (let i = 1; i < times; i++) this.run(inputs);
      return this.run(inputs);
    }
    const nodes = this.#leaves(inputs);
    const buffers = nodes.map(bufferOf);
    // Usually nobody else sees the memory, and it is in `buffers` already.
    for (const { handle, leaf } of this.#updated)
      if (!handle.ownNode.isPrivate) buffers[leaf] = ownMemory(handle);
    // All memory is there before the run: where there is not enough, no state has changed.
    const copies = new Map(this.#copied.map(({ root, leaf }) => [root, spaceFor(buffers[leaf]!)]));
    const results = this.#compiled.run(buffers, 'tensors', true, times, this.#memoryOfAssigned(nodes));
    for (const { root, leaf } of this.#copied) copy(buffers[leaf]!, copies.get(root)!);
    const { roots } = this.#compiled.schedule;
    const value = (root: number): BufferStorage => {
      const place = roots[root]!;
      return 'result' in place ? results[place.result]! : copies.get(root)!;
    };
    for (const { handle, root } of this.#moved)
      if (handle.ownNode.storage !== value(root)) become(handle, value(root));
    return this.#outputs.map((type, i) => leafOf(value(i), type, false));
  }

  /**
   * Memory for results that are assigned: that of the tensor itself, where the run does not read it and nobody else can see
   * it change.
   */
  #memoryOfAssigned(leaves: readonly GraphNode[]): Map<number, BufferStorage> {
    const memory = new Map<number, BufferStorage>();
    if (this.#moved.length === 0) return memory;
    const read = new Set(leaves.map(({ storage }) => storage));
    for (const { handle, root } of this.#moved) {
      const place = this.#compiled.schedule.roots[root]!;
      const own = privateStorage(handle);
      if (!own || read.has(own) || !('result' in place)) continue;
      if (own.bytes === place.bytes && own.device === this.#compiled.device) memory.set(place.result, own);
    }
    return memory;
  }

  /** Run once, then time it, launch by launch if asked. State moves on with every run that is timed. */
  async profile(inputs: readonly GraphNode[], options: ProfileOptions): Promise<Profile> {
    // After a run, nobody else sees the state that is updated in place.
    this.run(inputs);
    const leaves = this.#leaves(inputs);
    return holding(leaves, this.#compiled.profile(leaves.map(bufferOf), options));
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
