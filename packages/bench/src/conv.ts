/** `heddle bench conv`: the ladder of convolutions, rung by rung, up to tensor cores and the vendor's library. */
import { bf16, conv2d, type Precision, randn, type Tensor } from 'heddle';
import { circumstances, measuredDevice, rounded, spreadOf } from 'heddle/internal/cli/figures.js';
import { compiled } from 'heddle/internal/cli/workload.js';
import { PhiloxStream } from 'heddle/internal/core/philox.js';
import { timeProgram } from 'heddle/internal/engine/profile.js';
import type { Device, DeviceBuffer } from 'heddle/internal/runtime/device.js';
import { CONV_LADDER, type ConvRung, type ConvSizes } from './conv-ladder.js';
import { chosenRungs, gpuOfLadder, type LadderOptions } from './ladder.js';
import type { LadderResults, LadderStep } from './matmul.js';

/** Channels, as many in as out. */
export const CONV_SIZES: readonly number[] = [64, 256];

/** What is convolved: 64 images of 32 × 32. */
export const convSizes = (channels: number): ConvSizes => ({
  images: 64,
  channels,
  outputs: channels,
  side: 32,
});

export const CONV_PRECISIONS: readonly Precision[] = ['f32', 'tf32', 'bf16'];

/** On Hopper, images with channels last are multiplied by warpgroups. */
const TENSOR_CORES: readonly Precision[] = ['tf32', 'bf16'];

/** The case of a vendor's library that does the same. */
export const convPeer = (precision: Precision, channels: number): string =>
  `conv ladder ${precision} ${channels}`;

const flopsOf = ({ images, channels, outputs, side }: ConvSizes): number =>
  2 * images * outputs * side * side * channels * 9;

/**
 * @param sizesOf what is convolved, for a number of channels
 * @throws ArgumentError on a device that is not a GPU, or for a rung that does not exist · the signal's reason
 */
export async function runConvBench(
  options: LadderOptions = {},
  sizesOf: (channels: number) => ConvSizes = convSizes,
): Promise<LadderResults> {
  const { sizes = CONV_SIZES, peers, given = '' } = options;
  const device = gpuOfLadder('heddle bench cpu measures a network of convolutions here.');
  const planes = CONV_PRECISIONS.map((precision) => ({
    rung: `conv2d, ${precision}`,
    precision,
    last: false,
  }));
  const last = TENSOR_CORES.map((precision) => ({
    ...{ rung: `conv2d, channels last, ${precision}`, precision, last: true },
  }));
  const convolutions = [...planes, ...last];
  const chosen = chosenRungs([...Object.keys(CONV_LADDER), ...convolutions.map((c) => c.rung)], options.only);
  const steps: LadderStep[] = [];
  for (const size of sizes) {
    const problem = sizesOf(size);
    const best = peers?.get(convPeer('f32', size));
    const add = async (rung: string, time: () => Promise<readonly number[]>): Promise<void> => {
      options.signal?.throwIfAborted();
      options.onProgress?.(`${size} channels, ${rung}`);
      const spread = spreadOf(await time());
      const gflops = rounded(flopsOf(problem) / spread.median / 1e3);
      const ofPeer = best && { ofPeer: rounded(best.us / spread.median) };
      steps.push({ rung, size, ...spread, gflops, ...ofPeer });
    };
    for (const [name, rung] of Object.entries(CONV_LADDER))
      if (chosen(name)) await add(name, () => timeRung(device, problem, rung(problem, device.target)));
    // What `conv2d(x, w)` takes, by its own kernels.
    for (const { rung, precision, last } of convolutions.filter((c) => chosen(c.rung)))
      await add(rung, () => timeConvolution(problem, precision, last));
    for (const precision of CONV_PRECISIONS) {
      const peer = peers?.get(convPeer(precision, size));
      if (peer) await add(`${peer.peer} ${peer.mode}, ${precision}`, async () => [peer.us]);
    }
  }
  return {
    benchmark: 'conv',
    ...circumstances(`npx heddle bench conv${given}`),
    device: measuredDevice(device),
    steps,
  };
}

/** Device time of the launches of a rung, in µs: a sample a round. */
async function timeRung(
  device: Device,
  sizes: ConvSizes,
  { scratch, launches }: ConvRung,
): Promise<number[]> {
  const { images, channels, outputs, side } = sizes;
  const random = new PhiloxStream(1);
  const filled = (count: number, name: string): DeviceBuffer => {
    const buffer = device.allocate(4 * count, name);
    const values = Float32Array.from({ length: count }, () => 2 * random.uniform() - 1);
    device.write(buffer, new Uint8Array(values.buffer));
    return buffer;
  };
  const names = ['x', 'w', 'y', 'scratch'] as const;
  const buffers = [
    filled(images * channels * side * side, 'x'),
    filled(outputs * channels * 9, 'w'),
    device.allocate(4 * images * outputs * side * side, 'y'),
    device.allocate(4 * Math.max(1, scratch), 'scratch'),
  ];
  const program = device.compile(
    launches.map(({ kernel: { threads, ...launch }, args }) => ({
      ...launch,
      block: [threads, 1, 1] as const,
      args: args.map((name) => ({ slot: names.indexOf(name), offset: 0 })),
    })),
  );
  try {
    return await timeProgram(device, program, buffers);
  } finally {
    program.dispose();
    for (const buffer of buffers) device.free(buffer);
  }
}

/** @param last the images and the filters have their channels last, and so has the result */
async function timeConvolution(
  { images, channels, outputs, side }: ConvSizes,
  precision: Precision,
  last: boolean,
): Promise<readonly number[]> {
  const operands = last
    ? [randn([images, side, side, channels]), randn([outputs, 3, 3, channels])]
    : [randn([images, channels, side, side]), randn([outputs, channels, 3, 3])];
  const stored = operands.map((t): Tensor => (precision === 'bf16' ? t.cast(bf16) : t).realize());
  const of = { padding: 1, ...(precision !== 'bf16' && { precision }) };
  const convolve = (x: Tensor, w: Tensor): Tensor =>
    last
      ? conv2d(x.permute([0, 3, 1, 2]), w.permute([0, 3, 1, 2]), undefined, of).permute([0, 2, 3, 1])
      : conv2d(x, w, undefined, of);
  const workload = compiled((x, w) => convolve(x!, w!), stored);
  try {
    const { us } = await workload.profile({ each: false });
    return us;
  } finally {
    workload.dispose();
  }
}
