/** `heddle bench matmul`: the ladder of matrix products, rung by rung, up to tensor cores and the vendor's library. */
import { ArgumentError } from '../core/errors.js';
import { PhiloxStream } from '../core/philox.js';
import { PRECISIONS } from '../core/precision.js';
import { timeProgram } from '../engine/profile.js';
import { currentDevice } from '../engine/storage.js';
import { irFunction } from '../kernel/ir-function.js';
import type { MatmulProblem } from '../kernels/matmul-cpu.js';
import { MATMUL_LADDER } from '../kernels/matmul-cuda-ladder.js';
import type { GridKernel } from '../kernels/tiled.js';
import type { Device, DeviceBuffer } from '../runtime/device.js';
import { productCase } from './bench-device-cases.js';
import type { DevicePeers } from './bench-peers.js';
import {
  type Circumstances,
  circumstances,
  type MeasuredDevice,
  measuredDevice,
  rounded,
  type Spread,
  spreadOf,
} from './bench-results.js';

export interface LadderStep extends Spread {
  readonly rung: string;
  readonly size: number;
  readonly gflops: number;
  /** The time of the fastest strict f32 product of a peer / this one's. */
  readonly ofPeer?: number;
}

export interface LadderResults extends Circumstances {
  readonly benchmark: 'matmul';
  readonly device: MeasuredDevice;
  readonly steps: readonly LadderStep[];
}

export interface LadderOptions {
  /** Of square matrices. Default: 1024 and 4096. */
  readonly sizes?: readonly number[];
  readonly peers?: DevicePeers;
  readonly given?: string;
  readonly onProgress?: (what: string) => void;
  readonly signal?: AbortSignal;
}

export const LADDER_SIZES: readonly number[] = [1024, 4096];

/** @throws ArgumentError on a device that is no GPU · the signal's reason */
export async function runMatmulBench(options: LadderOptions = {}): Promise<LadderResults> {
  const { sizes = LADDER_SIZES, peers, given = '' } = options;
  const device = currentDevice();
  if (device.target.model !== 'threads')
    throw new ArgumentError(
      `the ladder is for GPUs, ${device.name} is none. heddle bench cpu measures products here.`,
    );
  const steps: LadderStep[] = [];
  for (const size of sizes) {
    const best = peers?.get(`gemm fp32 ${size}`);
    const add = async (rung: string, time: () => Promise<readonly number[]>): Promise<void> => {
      options.signal?.throwIfAborted();
      options.onProgress?.(`${size}³, ${rung}`);
      const spread = spreadOf(await time());
      const rate = { gflops: rounded((2 * size ** 3) / spread.median / 1e3) };
      steps.push({
        rung,
        size,
        ...spread,
        ...rate,
        ...(best && { ofPeer: rounded(best.us / spread.median) }),
      });
    };
    const buffers = matrices(device, size);
    for (const [name, rung] of Object.entries(MATMUL_LADDER))
      await add(name, () => timeRung(device, rung(problem(size)), buffers));
    for (const buffer of buffers) device.free(buffer);
    // What `a.matmul(b)` takes, by its own kernels.
    for (const precision of PRECISIONS) {
      const { prepare } = productCase(precision, [size, size, size]);
      await add(`matmul, ${precision}`, async () => {
        const workload = prepare();
        const { us } = await workload.profile({ each: false });
        workload.dispose();
        return us;
      });
    }
    for (const precision of ['fp32', 'tf32', 'bf16']) {
      const peer = peers?.get(`gemm ${precision} ${size}`);
      if (peer) await add(`${peer.peer} ${peer.mode}, ${precision}`, async () => [peer.us]);
    }
  }
  return {
    benchmark: 'matmul',
    ...circumstances(`npx heddle bench matmul${given}`),
    device: measuredDevice(device),
    steps,
  };
}

/** A · B of square matrices, nothing after it. */
function problem(size: number): MatmulProblem {
  const matrix = { offset: 0, batch: [], batchStrides: [], rowStride: size, columnStride: 1 };
  const finish = irFunction(([value]) => value!);
  return { batches: 1, M: size, N: size, K: size, a: matrix, b: matrix, finish };
}

async function timeRung(
  device: Device,
  { kernel, grid, threads, sharedBytes }: GridKernel,
  buffers: readonly DeviceBuffer[],
): Promise<number[]> {
  const args = buffers.map((_, slot) => ({ slot, offset: 0 }));
  const block = [threads, 1, 1] as const;
  const program = device.compile([{ kernel, grid, block, sharedBytes, args, independent: false }]);
  try {
    return await timeProgram(device, program, buffers);
  } finally {
    program.dispose();
  }
}

/** A, B and C. */
function matrices(device: Device, size: number): DeviceBuffer[] {
  const random = new PhiloxStream(1);
  const row = Float32Array.from({ length: size }, () => 2 * random.uniform() - 1);
  // Each row is the last, moved by one element: other numbers than those around it.
  const values = new Float32Array(size * size);
  for (let i = 0; i < size; i++) {
    values.set(row.subarray(i), i * size);
    values.set(row.subarray(0, i), (i + 1) * size - i);
  }
  return ['a', 'b', 'c'].map((name) => {
    const buffer = device.allocate(values.byteLength, name);
    device.write(buffer, new Uint8Array(values.buffer));
    return buffer;
  });
}
