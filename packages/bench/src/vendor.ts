import { DeviceError } from 'heddle/internal/core/errors.js';
import { toBf16 } from 'heddle/internal/core/float16.js';
import { ARITHMETICS, type Arithmetic } from 'heddle/internal/core/precision.js';
import { median, timeProgram } from 'heddle/internal/engine/profile.js';
import type { LibraryCall } from 'heddle/internal/kernel/ir/library-call.js';
import type { Device, DeviceBuffer, Launch, LibraryLaunch, Program } from 'heddle/internal/runtime/device.js';
import { CONV_PRECISIONS, convPeer, convSizes } from './conv.js';
import { productPeer } from './device-cases.js';

/** Calls that do a case's work, one after the other, each on its own memory. */
export interface Yardstick {
  /** The name of the workload in torch_gpu.py. */
  readonly case: string;
  readonly calls: readonly {
    readonly library: LibraryCall;
    /** Bytes of its arguments. */
    readonly bytes: readonly number[];
  }[];
}

type Sizes = readonly number[];

const count = (shape: Sizes): number => shape.reduce((n, d) => n * d, 1);
const floats = (...shapes: readonly Sizes[]): number[] => shapes.map((shape) => 4 * count(shape));

function product(precision: Arithmetic, [M, K, N]: readonly [number, number, number]): Yardstick {
  const size = M === K && K === N ? `${N}` : `${M}x${K}x${N}`;
  const isHalf = precision === 'f16' || precision === 'bf16';
  const dtype = isHalf ? precision : 'f32';
  const width = isHalf ? 2 : 4;
  const options = { M, N, K, batches: 1, dtype, precision, a: [0, K, 0, 0], b: [0, N, 0, 0], rank: 0 };
  return {
    case: productPeer(precision, size),
    calls: [
      {
        library: { name: 'cublaslt.matmul', options },
        bytes: [M * K, K * N, M * N].map((n) => width * n),
      },
    ],
  };
}

/** 3×3 by f32 products, without the bias; by any algorithm, as in PyTorch. */
function convolution([N, C, H, W]: Sizes, out: number, padding: number): Yardstick[] {
  const [x, w, y] = [
    [N!, C!, H!, W!],
    [out, C!, 3, 3],
    [N!, out, H! + 2 * padding - 2, W! + 2 * padding - 2],
  ] as const;
  const common = {
    ...{ x, w, y, stride: [1, 1], padding: [padding, padding], dilation: [1, 1], groups: 1 },
    ...{ dtype: 'f32', precision: 'f32', layout: 'NCHW', rank: 0, any: true },
  };
  const of = (direction: string, ...shapes: readonly Sizes[]) => ({
    library: { name: 'cudnn.convolution', options: { ...common, direction } },
    bytes: floats(...shapes),
  });
  const name = `conv ${x.join('x')} k3 ->${out} float32 nchw`;
  return [
    { case: `${name} fwd`, calls: [of('forward', x, w, y)] },
    { case: `${name} bwd`, calls: [of('input', y, w, x), of('weight', x, y, w)] },
  ];
}

/** What `heddle bench conv` climbs to, for each number of channels: NCHW in f32 and tf32, channels last in bf16. */
export const ladderYardsticks = (channels: readonly number[]): Yardstick[] =>
  channels.flatMap((size) =>
    CONV_PRECISIONS.map((precision): Yardstick => {
      const { images, channels, outputs, side } = convSizes(size);
      const [x, w, y] = [
        [images, channels, side, side],
        [outputs, channels, 3, 3],
        [images, outputs, side, side],
      ] as const;
      const isHalf = precision === 'bf16';
      const layout = isHalf ? { dtype: 'bf16', layout: 'NHWC' } : { dtype: 'f32', layout: 'NCHW', any: true };
      const options = {
        ...{ x, w, y, stride: [1, 1], padding: [1, 1], dilation: [1, 1], groups: 1 },
        ...{ ...layout, precision, rank: 0, direction: 'forward' },
      };
      const bytes = [x, w, y].map((shape) => (isHalf ? 2 : 4) * count(shape));
      return {
        case: convPeer(precision, size),
        calls: [{ library: { name: 'cudnn.convolution', options }, bytes }],
      };
    }),
  );

/** What else a network is made of, on one image size. */
function layers(x: readonly [number, number, number, number]): Yardstick[] {
  const [N, C, H, W] = x;
  const y = [N, C, H / 2, W / 2] as const;
  const channels = [C] as const;
  const size = `${x.join('x')} float32`;
  const pool = { x, y, kernel: [2, 2], stride: [2, 2], padding: [0, 0], mode: 'max', dtype: 'f32' };
  const relu = { x, mode: 'relu', dtype: 'f32' };
  const norm = { x, momentum: 0.1, epsilon: 1e-5, dtype: 'f32' };
  const one = (
    name: string,
    routine: string,
    options: LibraryCall['options'],
    ...shapes: Sizes[]
  ): Yardstick => ({
    case: `${name} ${size}`,
    calls: [{ library: { name: routine, options }, bytes: floats(...shapes) }],
  });
  const [forward, backward] = [
    [x, channels, channels, x, channels, channels, channels, channels],
    [x, x, channels, x, channels, channels, channels, channels],
  ];
  return [
    {
      case: `pool ${size}`,
      calls: [
        { library: { name: 'cudnn.activation', options: relu }, bytes: floats(x, x) },
        { library: { name: 'cudnn.pooling', options: pool }, bytes: floats(x, y) },
      ],
    },
    one('max pooling', 'cudnn.pooling', pool, x, y),
    one('max pooling backward', 'cudnn.pooling', { ...pool, backward: true }, y, y, x, x),
    one('relu', 'cudnn.activation', relu, x, x),
    one('relu backward', 'cudnn.activation', { ...relu, backward: true }, x, x, x, x),
    one('batch norm', 'cudnn.batchNorm', norm, ...forward),
    one('batch norm backward', 'cudnn.batchNorm', { ...norm, backward: true }, ...backward),
  ];
}

const random = (routine: 'uniform' | 'normal', name: string): Yardstick => ({
  case: `${routine} ${name}`,
  calls: [
    {
      library: { name: `curand.${routine}`, options: { seed: 1, count: Number(name) } },
      bytes: [4 * Number(name)],
    },
  ],
});

export const yardsticks = (): Yardstick[] => [
  ...ARITHMETICS.flatMap((p) => [512, 1024, 2048, 4096, 8192].map((n) => product(p, [n, n, n]))),
  product('f32', [64, 784, 128]),
  product('f32', [64, 4608, 10]),
  ...convolution([16, 3, 224, 224], 64, 1),
  ...convolution([256, 64, 32, 32], 64, 1),
  ...convolution([64, 1, 28, 28], 16, 0),
  ...convolution([64, 16, 26, 26], 32, 0),
  ...layers([64, 32, 24, 24]),
  ...layers([256, 64, 32, 32]),
  random('uniform', '1e8'),
  random('normal', '1e8'),
];

/** A line of JSON: a figure, or why there is none. */
export type VendorFigure = { readonly peer: string; readonly case: string; readonly mode: 'direct' } & (
  | { readonly us: number; readonly workspace: number }
  | { readonly error: string }
);

/**
 * Device time of each, and the memory that its library takes for itself.
 * @throws DeviceError if the device has no vendor libraries
 */
export async function* measureVendor(
  device: Device,
  sticks: readonly Yardstick[] = yardsticks(),
): AsyncGenerator<VendorFigure> {
  if (device.target.libraries.size === 0)
    throw new DeviceError(
      `There are no vendor libraries for ${device.name}. heddle doctor says what is missing (and HEDDLE_VENDOR must not be off).`,
    );
  for (const { case: name, calls } of sticks) {
    const peer = calls[0]!.library.name.split('.')[0]!;
    const line = { peer, case: name, mode: 'direct' } as const;
    const buffers: DeviceBuffer[] = [];
    try {
      const launches = calls.map(({ library, bytes }) => ({
        library,
        args: bytes.map((size) => {
          buffers.push(randomBuffer(device, size));
          return { slot: buffers.length - 1, offset: 0 };
        }),
      }));
      const best: Launch[] = [];
      for (const launch of launches) best.push(await fastest(device, launch, buffers));
      const before = device.memory().used;
      const program = device.compile(best);
      const workspace = device.memory().used - before;
      const us = median(await timeProgram(device, program, buffers));
      program.dispose();
      yield { ...line, us: Number(us.toPrecision(4)), workspace };
    } catch (error) {
      yield { ...line, error: (error as Error).message };
    } finally {
      for (const buffer of buffers) device.free(buffer);
    }
  }
}

const MOST_PROPOSALS = 8;

/** The call by the fastest of the ways that its library proposes, if it proposes any. */
async function fastest(device: Device, call: LibraryLaunch, slots: readonly DeviceBuffer[]): Promise<Launch> {
  const { library } = call;
  if (!('rank' in library.options)) return call;
  let best = { call, us: Number.POSITIVE_INFINITY };
  for (let rank = 0; rank < MOST_PROPOSALS; rank++) {
    const tried = { ...call, library: { ...library, options: { ...library.options, rank } } };
    let program: Program;
    try {
      program = device.compile([tried]);
    } catch (error) {
      if (rank === 0) throw error;
      break; // There are no more.
    }
    const us = median(await timeProgram(device, program, slots, { rounds: 3, roundUs: 2000 }));
    program.dispose();
    if (us < best.us) best = { call: tried, us };
  }
  return best.call;
}

/** bf16 numbers; two of them read as one f32 are close to the second. */
const BLOCK = Uint16Array.from({ length: 1 << 19 }, () => toBf16(2 * Math.random() - 1));

/** Random numbers in f32 and in bf16: zeros would take less power. */
function randomBuffer(device: Device, bytes: number): DeviceBuffer {
  const buffer = device.allocate(bytes, 'bench');
  const block = new Uint8Array(BLOCK.buffer);
  for (let at = 0; at < bytes; at += block.length)
    device.write(buffer, block.subarray(0, Math.min(block.length, bytes - at)), at);
  return buffer;
}
