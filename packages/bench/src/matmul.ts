/** `heddle bench matmul`: the ladder of matrix products, rung by rung, up to tensor cores and the vendor's library. */
import {
  type Circumstances,
  circumstances,
  type MeasuredDevice,
  measuredDevice,
  rounded,
  type Spread,
  spreadOf,
} from 'heddle/internal/cli/figures.js';
import { ARITHMETICS } from 'heddle/internal/core/precision.js';
import { productCase, productPeer } from './device-cases.js';
import { chosenRungs, gpuOfLadder, type LadderOptions, matrices, timeLaunch } from './ladder.js';
import { MATMUL_LADDER } from './matmul-ladder.js';

export interface LadderStep extends Spread {
  readonly rung: string;
  /** Of square matrices, or channels. */
  readonly size: number;
  readonly gflops: number;
  /** The time of a peer's fastest product, or convolution, in strict f32 / this one's. */
  readonly ofPeer?: number;
}

export interface LadderResults extends Circumstances {
  readonly benchmark: 'matmul' | 'conv';
  readonly device: MeasuredDevice;
  readonly steps: readonly LadderStep[];
}

export const LADDER_SIZES: readonly number[] = [1024, 4096];

/** @throws ArgumentError on a device that is not a GPU, or for a rung that does not exist · the signal's reason */
export async function runMatmulBench(options: LadderOptions = {}): Promise<LadderResults> {
  const { sizes = LADDER_SIZES, peers, given = '' } = options;
  const device = gpuOfLadder('heddle bench cpu measures products here.');
  const products = ARITHMETICS.map((precision) => ({ rung: `matmul, ${precision}`, precision }));
  const chosen = chosenRungs([...Object.keys(MATMUL_LADDER), ...products.map((p) => p.rung)], options.only);
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
    const buffers = matrices(device, size, ['a', 'b', 'c']);
    for (const [name, rung] of Object.entries(MATMUL_LADDER)) {
      if (!chosen(name)) continue;
      const { threads, ...launch } = rung({ M: size, N: size, K: size });
      await add(name, () => timeLaunch(device, { ...launch, block: [threads, 1, 1] }, buffers));
    }
    for (const buffer of buffers) device.free(buffer);
    // What `a.matmul(b)` takes, by its own kernels.
    for (const { rung, precision } of products.filter((p) => chosen(p.rung))) {
      const { prepare } = productCase(precision, [size, size, size]);
      await add(rung, async () => {
        const workload = prepare();
        const { us } = await workload.profile({ each: false });
        workload.dispose();
        return us;
      });
    }
    for (const precision of ARITHMETICS) {
      const peer = peers?.get(productPeer(precision, `${size}`));
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
