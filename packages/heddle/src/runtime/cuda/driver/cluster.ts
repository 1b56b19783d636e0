/** Launches in thread-block clusters: what cuLaunchKernel has no argument for. */
import type { Dim3 } from '../../device.js';
import { NativeMemory } from './native.js';

/** sizeof(CUlaunchConfig): grid, block, shared bytes; at 32 the stream, at 40 the attributes, at 48 how many. */
const CONFIG_BYTES = 56;
/** sizeof(CUlaunchAttribute): its number, and at 8 its value. */
const ATTRIBUTE_BYTES = 72;

/** CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION */
export const CLUSTER_DIMENSION = 4;

/** The CUlaunchConfig of a launch with clusters. */
export class ClusterConfig {
  readonly #memory = new NativeMemory(CONFIG_BYTES + ATTRIBUTE_BYTES);

  constructor(grid: Dim3, block: Dim3, sharedBytes: number, cluster: Dim3) {
    const memory = this.#memory;
    const attribute = CONFIG_BYTES;
    [...grid, ...block, sharedBytes].forEach((v, i) => {
      memory.setU32(4 * i, v);
    });
    memory.setU64(40, memory.address + attribute);
    memory.setU32(48, 1);
    memory.setU32(attribute, CLUSTER_DIMENSION);
    cluster.forEach((v, i) => {
      memory.setU32(attribute + 8 + 4 * i, v);
    });
  }

  /** The address of the configuration, for a launch on that CUstream. */
  on(stream: number): number {
    this.#memory.setU64(32, stream);
    return this.#memory.address;
  }

  /** The address of the attribute's value, for nodes of graphs. */
  get value(): number {
    return this.#memory.address + CONFIG_BYTES + 8;
  }
}
