/** `heddle bench transpose`: the ladder of transposes against a copy of as many bytes. */

import { randn, type Tensor } from 'heddle';
import {
  type Circumstances,
  circumstances,
  type MeasuredDevice,
  measuredDevice,
  rounded,
  type Spread,
  spreadOf,
} from 'heddle/internal/cli/figures.js';
import { compiled } from 'heddle/internal/cli/workload.js';
import { chosenRungs, gpuOfLadder, type LadderOptions, matrices, timeLaunch } from './ladder.js';
import { TRANSPOSES } from './transpose-ladder.js';

export interface TransposeStep extends Spread {
  readonly rung: string;
  readonly size: number;
  /** Read and written, GB/s. */
  readonly gigabytes: number;
  /** The time of a copy of the same run / this one's. */
  readonly ofCopy: number;
}

export interface TransposeResults extends Circumstances {
  readonly benchmark: 'transpose';
  readonly device: MeasuredDevice;
  readonly steps: readonly TransposeStep[];
}

export const TRANSPOSE_SIZES: readonly number[] = [8192];

/** By the scheduler. */
const GENERATED = 'x.transpose()';

/** @throws ArgumentError on a device that is not a GPU, or for a rung that does not exist · the signal's reason */
export async function runTransposeBench(options: LadderOptions = {}): Promise<TransposeResults> {
  const { sizes = TRANSPOSE_SIZES, peers, given = '' } = options;
  const device = gpuOfLadder('heddle bench kernels --only transpose measures one here.');
  const chosen = chosenRungs([...TRANSPOSES.map((t) => t.name), GENERATED], options.only);
  const steps: TransposeStep[] = [];
  for (const size of sizes) {
    let copyUs: number | undefined;
    const add = async (rung: string, time: () => Promise<readonly number[]>): Promise<void> => {
      options.signal?.throwIfAborted();
      options.onProgress?.(`${size}², ${rung}`);
      const spread = spreadOf(await time());
      copyUs ??= spread.median;
      const gigabytes = rounded((2 * 4 * size ** 2) / spread.median / 1e3);
      steps.push({ rung, size, ...spread, gigabytes, ofCopy: rounded(copyUs / spread.median) });
    };
    await add('copy', () => timeTensor((x) => x, size));
    const buffers = matrices(device, size, ['x', 'y']);
    for (const { name, make } of TRANSPOSES.filter((t) => chosen(t.name)))
      await add(name, () => timeLaunch(device, make(size, size), buffers));
    for (const buffer of buffers) device.free(buffer);
    // What the scheduler writes.
    if (chosen(GENERATED)) await add(GENERATED, () => timeTensor((x) => x.transpose(), size));
    const peer = peers?.get(`transpose ${size}x${size} fp32`);
    if (peer) await add(`${peer.peer} ${peer.mode}`, async () => [peer.us]);
  }
  return {
    benchmark: 'transpose',
    ...circumstances(`npx heddle bench transpose${given}`),
    device: measuredDevice(device),
    steps,
  };
}

async function timeTensor(fn: (x: Tensor) => Tensor, size: number): Promise<readonly number[]> {
  const workload = compiled((x) => fn(x!), [randn([size, size]).realize()]);
  try {
    return (await workload.profile({ each: false })).us;
  } finally {
    workload.dispose();
  }
}
