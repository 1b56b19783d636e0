/** A program as a CUDA graph: one call launches all of it. */

import { CLUSTER_DIMENSION } from '../driver/cluster.js';
import type { CudaContext } from '../driver/context.js';
import type { Driver } from '../driver/driver.js';
import { NativeMemory } from '../driver/native.js';
import type { ArgumentBlock } from './arguments.js';
import type { PlannedCall, PlannedKernel, PlannedLaunch } from './plan.js';

/** sizeof(CUDA_KERNEL_NODE_PARAMS) */
const PARAMS_BYTES = 72;

/** CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, and sizeof(CUlaunchAttributeValue) */
const SHARED_PERCENT = 14;
const VALUE_BYTES = 64;

/** CU_STREAM_CAPTURE_MODE_RELAXED: other threads may call the driver meanwhile. */
const RELAXED = 2;

/** Bytes of a CUgraphEdgeData (8 in all). */
const EDGE = { fromPort: 0, type: 2 } as const;
/** CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC and CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC */
const PROGRAMMATIC = 1;

export class CudaGraph {
  readonly copies: number;
  /** Addresses that the nodes have now. */
  readonly addresses: Float64Array;
  readonly #context: CudaContext;
  readonly #driver: Driver;
  readonly #plan: readonly PlannedLaunch[];
  readonly #args: ArgumentBlock;
  /** CUDA_KERNEL_NODE_PARAMS of each launch; of a library call, nothing. */
  readonly #params: NativeMemory;
  /** Of an attribute of a node. */
  readonly #value = new NativeMemory(VALUE_BYTES);
  /** The CUgraphNodes of each launch, one per copy. */
  readonly #nodes: readonly number[][];
  readonly #graph: number;
  #executable: number;

  /**
   * @param copies how many times the program runs in one launch, one after the other
   * @param addresses of the slots, as `args` has them
   */
  constructor(
    context: CudaContext,
    plan: readonly PlannedLaunch[],
    args: ArgumentBlock,
    copies: number,
    addresses: Float64Array,
  ) {
    const { driver, stream } = context;
    this.#context = context;
    this.#driver = driver;
    this.#plan = plan;
    this.#args = args;
    this.copies = copies;
    this.addresses = addresses.slice();
    this.#params = new NativeMemory(PARAMS_BYTES * plan.length);
    plan.forEach((launch, i) => {
      if ('fn' in launch) this.#writeParams(i, launch.fn.handle, launch);
    });
    const { api } = driver;
    this.#graph = driver.handle((at) => api.cuGraphCreate(at, 0));
    this.#nodes = plan.map(() => []);
    this.#addNodes();
    this.#executable = driver.handle((at) => api.cuGraphInstantiateWithFlags(at, this.#graph, 0));
    api.cuGraphUpload(this.#executable, stream);
    for (const launch of plan) if ('routine' in launch) launch.routine.graphs?.add(this);
  }

  /** It has been disposed of, perhaps by a library, and does not run any more. */
  get isDisposed(): boolean {
    return this.#executable === 0;
  }

  launch(): void {
    this.#driver.api.cuGraphLaunch(this.#executable, this.#context.stream);
  }

  /** Take over the addresses that `args` has by now for these launches. */
  update(launches: Iterable<number>): void {
    if (this.isDisposed) return;
    const { api } = this.#driver;
    for (const index of launches) {
      const launch = this.#plan[index]!;
      const nodes = this.#nodes[index]!;
      if ('fn' in launch) {
        const params = this.#paramsAt(index);
        for (const node of nodes) api.cuGraphExecKernelNodeSetParams_v2(this.#executable, node, params);
      } else {
        this.#withCapture(launch, index, (child) => {
          for (const node of nodes) api.cuGraphExecChildGraphNodeSetParams(this.#executable, node, child);
        });
      }
    }
  }

  dispose(): void {
    if (this.isDisposed) return;
    for (const launch of this.#plan) if ('routine' in launch) launch.routine.graphs?.delete(this);
    const { api } = this.#driver;
    this.#context.release(() => {
      api.cuGraphExecDestroy(this.#executable);
      api.cuGraphDestroy(this.#graph);
    });
    this.#executable = 0;
  }

  /** A copy begins when all of the one before has ended. */
  #addNodes(): void {
    const plan = this.#plan;
    const heirs = heirsOf(plan);
    const needed = new Set(plan.flatMap(({ needs }) => needs));
    const last = [...plan.keys()].filter((i) => !needed.has(i));
    const first = plan.filter(({ needs }) => needs.length === 0);
    const chained = last.length === 1 && first.length === 1 && 'fn' in first[0]! && 'fn' in plan[last[0]!]!;
    for (let copy = 0; copy < this.copies; copy++) {
      plan.forEach((launch, index) => {
        const node = this.#addNode(launch, index);
        this.#nodes[index]!.push(node);
        const { needs } = launch;
        const handle =
          (of: number) =>
          (i: number): number =>
            this.#nodes[i]![of]!;
        if (needs.length > 0) this.#depend(node, needs.map(handle(copy)), heirs.has(index));
        else if (copy > 0) this.#depend(node, last.map(handle(copy - 1)), chained);
      });
    }
  }

  #addNode(launch: PlannedLaunch, index: number): number {
    const { api, raw } = this.#driver;
    const add = (call: (at: number) => void): number => this.#driver.handle(call);
    let node = 0;
    if ('fn' in launch) {
      node = add((at) => api.cuGraphAddKernelNode_v2(at, this.#graph, 0, 0, this.#paramsAt(index)));
      const { clusters, sharedPercent } = launch;
      if (clusters) api.cuGraphKernelNodeSetAttribute(node, CLUSTER_DIMENSION, clusters.value);
      this.#value.setU32(0, sharedPercent);
      // Unchecked: a hint, which older drivers do not know.
      raw.cuGraphKernelNodeSetAttribute(node, SHARED_PERCENT, this.#value.address);
    } else
      this.#withCapture(launch, index, (child) => {
        node = add((at) => api.cuGraphAddChildGraphNode(at, this.#graph, 0, 0, child));
      });
    return node;
  }

  /**
   * @param overlapped the node may start before those before it have ended, as it waits for their end itself, which
   * saves more than a quarter of the time from kernel to kernel of a chain
   */
  #depend(node: number, before: readonly number[], overlapped: boolean): void {
    const count = before.length;
    if (count === 0) return;
    const edges = new NativeMemory(3 * 8 * count);
    before.forEach((from, i) => {
      edges.setU64(8 * i, from);
      edges.setU64(8 * (count + i), node);
      if (!overlapped || !this.#context.overlapped) return;
      const data = 8 * (2 * count + i);
      edges.bytes[data + EDGE.fromPort] = PROGRAMMATIC;
      edges.bytes[data + EDGE.type] = PROGRAMMATIC;
    });
    const { address } = edges;
    const { api } = this.#driver;
    if (this.#context.overlapped)
      api.cuGraphAddDependencies_v2(this.#graph, address, address + 8 * count, address + 16 * count, count);
    else api.cuGraphAddDependencies(this.#graph, address, address + 8 * count, count);
  }

  /** What a library puts on a stream, as its own graph, which `use` copies. */
  #withCapture({ routine }: PlannedCall, index: number, use: (child: number) => void): void {
    const { api, raw } = this.#driver;
    const { stream } = this.#context;
    const ended = new NativeMemory(8);
    api.cuStreamBeginCapture_v2(stream, RELAXED);
    try {
      routine.enqueue(stream, this.#args.values(index));
    } catch (error) {
      // Unchecked: the reason is the library's.
      if (raw.cuStreamEndCapture(stream, ended.address) === 0) raw.cuGraphDestroy(ended.u64());
      throw error;
    }
    api.cuStreamEndCapture(stream, ended.address);
    try {
      use(ended.u64());
    } finally {
      api.cuGraphDestroy(ended.u64());
    }
  }

  #paramsAt(index: number): number {
    return this.#params.address + PARAMS_BYTES * index;
  }

  #writeParams(index: number, fn: number, launch: PlannedKernel): void {
    const params = this.#params;
    const at = PARAMS_BYTES * index;
    params.setU64(at, fn);
    [...launch.grid, ...launch.block, launch.sharedBytes].forEach((v, i) => {
      params.setU32(at + 8 + 4 * i, v);
    });
    params.setU64(at + 40, this.#args.pointers[index]!);
  }
}

/**
 * Kernels that may start before the one they need has ended, as they wait for it themselves: those that need one
 * kernel only, and of several that need the same the one on which the longest chain hangs. To overlap more than one
 * costs more than it gains.
 */
function heirsOf(plan: readonly PlannedLaunch[]): Set<number> {
  const heights = plan.map(() => 0);
  const heirs = new Map<number, number>();
  for (let i = plan.length - 1; i >= 0; i--) {
    const { needs } = plan[i]!;
    for (const need of needs) {
      heights[need] = Math.max(heights[need]!, heights[i]! + 1);
      const known = heirs.get(need);
      if (known === undefined || heights[i]! >= heights[known]!) heirs.set(need, i);
    }
  }
  const overlaps = (i: number, need: number): boolean =>
    'fn' in plan[i]! && 'fn' in plan[need]! && plan[i]!.needs.length === 1;
  return new Set([...heirs].flatMap(([need, i]) => (overlaps(i, need) ? [i] : [])));
}
