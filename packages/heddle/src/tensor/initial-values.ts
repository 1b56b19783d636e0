/**
 * Initial values: the numbers of a stream of the host, one after the other, drawn by the device that holds the tensor. They are
 * the same to the last bit on all devices (core/gaussian.ts says how), and where the host draws them.
 */
import { type DType, f32, f64, u32 } from '../core/dtype.js';
import { GAUSSIAN, gaussianOf, SQRT_HALF_BITS } from '../core/gaussian.js';
import type { PhiloxStream } from '../core/philox.js';
import type { Shape } from '../core/shape.js';
import { encode, overwrite, withMemory } from '../engine/realize.js';
import { leaf } from '../graph/build.js';
import { buffer } from '../kernel/ir/types.js';
import { asCast, defineKernel } from '../kernel/language/language.js';
import { philoxBlock } from '../ops/philox.js';
import type { Device, DeviceBuffer, Program } from '../runtime/device.js';
import type { AnyTensor } from './checks.js';
import { fromNode } from './create.js';
import type { GivenShape } from './shape-types.js';
import type { Tensor } from './tensor.js';

/** What numbers are drawn from: the interval [0, 1), or the standard normal distribution. */
export type Distribution = 'uniform' | 'normal';

/** Words of the generator that one number takes. */
export const WORDS_OF: Readonly<Record<Distribution, number>> = { uniform: 1, normal: 2 };

/** `offset` + `scale` · x, for x drawn one after the other. */
export interface ScaledDraws {
  readonly distribution: Distribution;
  readonly offset: number;
  readonly scale: number;
}

/** A parameter of f32 with as many numbers as it has elements, from where the stream stands. */
export function drawnTensor<const S extends Shape>(
  shape: S,
  stream: PhiloxStream,
  draws: ScaledDraws,
): Tensor<GivenShape<S>, 'f32'> {
  const node = leaf(shape, f32, true);
  return fromNode(
    withMemory(node, (buffer) => drawInto(buffer, node, stream, draws)),
    { requiresGrad: true },
  );
}

/** Overwrite a tensor with such numbers, rounded to its dtype. @throws DTypeError if that cannot represent them */
export function draw(t: AnyTensor, stream: PhiloxStream, draws: ScaledDraws): void {
  overwrite(t, (buffer) => drawInto(buffer, t, stream, draws));
}

/** What is drawn into a buffer. */
interface Elements {
  readonly size: number;
  readonly dtype: DType;
}

/** Words of a block of Philox. */
const BLOCK = 4;
/** Threads that share the numbers of a block: one alone draws two normal numbers with twice the code, which takes longer to compile. */
const SHARERS: Readonly<Record<Distribution, number>> = { uniform: 1, normal: 2 };
const THREADS = 256;
/** Blocks of one launch. */
const BLOCKS = 2 ** 16;
/** The host draws fewer numbers within some 10 ms, which a kernel may take to compile. */
const FEW: Readonly<Record<Distribution, number>> = { uniform: 2 ** 18, normal: 2 ** 16 };
/** Fewer it draws sooner than a kernel that is there. */
const LEAST = 2 ** 12;

/** By the device, or by the host where that is sooner: the numbers are the same. */
function drawInto(
  buffer: DeviceBuffer,
  { size, dtype }: Elements,
  stream: PhiloxStream,
  draws: ScaledDraws,
): void {
  const { device } = buffer;
  const { distribution, offset, scale } = draws;
  const onHost = (count: number): void => {
    const values = dtype === f32 ? new Float32Array(count) : new Float64Array(count);
    stream.fill(values, () => offset + scale * stream[distribution]());
    device.write(buffer, encode(values, dtype));
  };
  // A launch begins with a block. Numbers that lie across two blocks are drawn on the host.
  const before = ((BLOCK - (stream.position % BLOCK)) % BLOCK) / WORDS_OF[distribution];
  const isFloat = dtype === f32 || dtype === f64;
  const least = programs.get(device)?.has(nameOf(dtype, distribution)) ? LEAST : FEW[distribution];
  // The simulator is slower than the host.
  if (size < least || !isFloat || !Number.isInteger(before) || device.target.name === 'sim') {
    onHost(size);
    return;
  }
  if (before > 0) onHost(before);
  const program = programFor(device, dtype, distribution);
  const numbers = Float64Array.of(offset, scale);
  const state = device.allocate(STATE_WORDS * u32.bytes, 'initial values');
  const scaling = device.allocate(numbers.byteLength, 'initial values');
  try {
    device.write(scaling, new Uint8Array(numbers.buffer));
    const most = (BLOCKS * BLOCK) / WORDS_OF[distribution];
    for (let from = before; from < size; from += most) {
      const end = Math.min(from + most, size);
      const { key, position } = stream;
      const block = position / BLOCK;
      const words = Uint32Array.of(...key, block, Math.floor(block / 2 ** 32), stream.stream, from, end);
      device.write(state, new Uint8Array(words.buffer));
      program.run([buffer, state, scaling]);
      stream.position = position + WORDS_OF[distribution] * (end - from);
    }
  } finally {
    device.free(state);
    device.free(scaling);
  }
}

/** Key, block and stream of the generator, and the elements to draw. */
const STATE_WORDS = 7;

const programs = new WeakMap<Device, Map<string, Program>>();

/** The kernel on a device, compiled once: one for tensors of all sizes and all seeds. */
function programFor(device: Device, t: DType, distribution: Distribution): Program {
  const known = programs.get(device) ?? new Map<string, Program>();
  programs.set(device, known);
  const name = nameOf(t, distribution);
  const program =
    known.get(name) ??
    device.compile([
      {
        kernel: drawKernel(t, distribution),
        grid: [(BLOCKS * SHARERS[distribution]) / THREADS, 1, 1],
        block: [THREADS, 1, 1],
        args: [0, 1, 2].map((slot) => ({ slot, offset: 0 })),
      },
    ]);
  known.set(name, program);
  return program;
}

const nameOf = (t: DType, distribution: Distribution): string => `draw_${distribution}_${t.name}`;

/** Each thread draws its share of the numbers of one block. @internal */
export const drawKernel = (t: DType, distribution: Distribution) =>
  defineKernel(
    nameOf(t, distribution),
    { values: buffer(t), state: buffer(u32), scaling: buffer(f64) },
    ({ values, state, scaling }, context) => {
      const { bitcast, f32, f64, globalId, i32, idiv, lane, select, u32 } = context;
      const { gaussian, normal, philoxBlock, polynomial, ARTANH, EACH, SHARERS, SINE, SQRT_HALF, T } =
        context;
      const first = i32(state[5]) + globalId.x * EACH;
      const end = i32(state[6]);
      if (first >= end) return;
      const low = state[2] + u32(idiv(globalId.x, SHARERS));
      const high = select(low < state[2], state[3] + 1, state[3]);
      const words = philoxBlock(low, high, state[4], state[0], state[1], context);
      const uniform = (word: number): number => f64(word >> 8) * 2 ** -24;
      // As PhiloxStream.normal does.
      const normalOf = (a: number, b: number): number => {
        const bits = bitcast(i32, f32(2 ** 24 - i32(a >> 8)));
        const exponent = (bits - SQRT_HALF) >> 23;
        const turn = i32(b >> 8);
        const y = f64(2 ** 22 - Math.min(turn, 2 ** 24 - turn)) * 2 ** -24;
        return gaussian(f64(bitcast(f32, bits - (exponent << 23))), f64(exponent - 24), y, {
          polynomial,
          ARTANH,
          SINE,
        });
      };
      const put = (i: number, x: number): void => {
        if (first + i < end) values[first + i] = T(scaling[0] + scaling[1] * x);
      };
      if (normal) {
        const isSecond = globalId.x % SHARERS === 1;
        const a = select(isSecond, lane(words, 2), lane(words, 0));
        put(0, normalOf(a, select(isSecond, lane(words, 3), lane(words, 1))));
      } else {
        put(0, uniform(lane(words, 0)));
        put(1, uniform(lane(words, 1)));
        put(2, uniform(lane(words, 2)));
        put(3, uniform(lane(words, 3)));
      }
    },
    {
      EACH: BLOCK / WORDS_OF[distribution] / SHARERS[distribution],
      ...{ SHARERS: SHARERS[distribution], normal: distribution === 'normal', T: asCast(t) },
      ...GAUSSIAN,
      ...{ SQRT_HALF: SQRT_HALF_BITS, gaussian: gaussianOf, philoxBlock },
    },
  );
