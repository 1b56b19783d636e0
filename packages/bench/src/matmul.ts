/** `heddle bench matmul`: the ladders of matrix products in f32 and bf16, rung by rung, and the vendor's library. */
import {
  type Circumstances,
  circumstances,
  type MeasuredDevice,
  measuredDevice,
  rounded,
  type Spread,
  spreadOf,
} from 'heddle/internal/cli/figures.js';
import { bf16 } from 'heddle/internal/core/dtype.js';
import { ARITHMETICS } from 'heddle/internal/core/precision.js';
import { WARPGROUPS } from 'heddle/internal/ops/matmul/warpgroup-tiles.js';
import { productCase, productPeer } from './device-cases.js';
import { chosenRungs, gpuOfLadder, type LadderOptions, matrices, timeLaunch } from './ladder.js';
import { MATMUL_LADDER } from './matmul-ladder.js';
import { WARPGROUP_LADDER } from './warpgroup-ladder.js';

export interface LadderStep extends Spread {
  readonly rung: string;
  /** Of a rung that multiplies in 16 bits. */
  readonly arithmetic?: 'bf16';
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

const NAMES = ['a', 'b', 'c'];

export const LADDER_SIZES: readonly number[] = [1024, 4096];

/** @throws ArgumentError on a device that is not a GPU, or for a rung that does not exist · the signal's reason */
export async function runMatmulBench(options: LadderOptions = {}): Promise<LadderResults> {
  const { sizes = LADDER_SIZES, peers, given = '' } = options;
  const device = gpuOfLadder('heddle bench cpu measures products here.');
  const products = ARITHMETICS.map((precision) => ({ rung: `matmul, ${precision}`, precision }));
  const rungs = [MATMUL_LADDER, WARPGROUP_LADDER].flatMap((ladder) => Object.keys(ladder));
  const chosen = chosenRungs([...rungs, ...products.map((p) => p.rung)], options.only);
  const steps: LadderStep[] = [];
  for (const size of sizes) {
    const best = peers?.get(`gemm fp32 ${size}`);
    const add = async (
      rung: string,
      time: () => Promise<readonly number[]>,
      arithmetic?: 'bf16',
    ): Promise<void> => {
      options.signal?.throwIfAborted();
      options.onProgress?.(`${size}³, ${rung}`);
      const spread = spreadOf(await time());
      const rate = { gflops: rounded((2 * size ** 3) / spread.median / 1e3) };
      steps.push({
        rung,
        ...(arithmetic && { arithmetic }),
        size,
        ...spread,
        ...rate,
        ...(best && { ofPeer: rounded(best.us / spread.median) }),
      });
    };
    let buffers = matrices(device, size, NAMES);
    for (const [name, rung] of Object.entries(MATMUL_LADDER)) {
      if (!chosen(name)) continue;
      const { threads, ...launch } = rung({ M: size, N: size, K: size });
      await add(name, () => timeLaunch(device, { ...launch, block: [threads, 1, 1] }, buffers));
    }
    for (const buffer of buffers) device.free(buffer);
    buffers = matrices(device, size, NAMES, bf16);
    for (const [name, rung] of Object.entries(
      device.target.capability === WARPGROUPS ? WARPGROUP_LADDER : {},
    )) {
      if (!chosen(name)) continue;
      const { threads, ...launch } = rung({ M: size, N: size, K: size }, device.target.units);
      await add(name, () => timeLaunch(device, { ...launch, block: [threads, 1, 1] }, buffers), 'bf16');
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
