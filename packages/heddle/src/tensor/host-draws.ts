/**
 * Random numbers for the host, as many as a large tensor has: those of core/philox.ts, one after the other, but drawn by the
 * threads of a CPU device, whichever device the tensor is for. So they are the same everywhere.
 *
 * Measured on one thread of an Intel Xeon (2026-11-23, processor time): a normal number takes 26 ns instead of 155, and the
 * kernel 0.1 s to compile where it is not on disk. A uniform one takes 8 ns instead of 58 (time, beside others).
 */
import { type DType, f32, f64, u32, viewAs } from '../core/dtype.js';
import { DeviceError, OutOfMemoryError } from '../core/errors.js';
import type { PhiloxStream } from '../core/philox.js';
import { currentDevice } from '../engine/storage.js';
import { buffer } from '../kernel/ir/types.js';
import { asCast, defineKernel } from '../kernel/language/language.js';
import type { Device, DeviceBuffer, Program } from '../runtime/device.js';
import { openHelper } from '../runtime/registry.js';

/** What numbers are drawn from: the interval [0, 1), or the standard normal distribution. */
export type Distribution = 'uniform' | 'normal';

type Values = Float32Array | Float64Array;

/** Words of the generator that one number takes. */
export const WORDS_OF: Readonly<Record<Distribution, number>> = { uniform: 1, normal: 2 };

/** Words of a block of Philox, which a thread draws. */
const BLOCK = 4;
const THREADS = 256;
/** Blocks of one launch. */
const BLOCKS = 2 ** 16;
/**
 * Fewer numbers are drawn on the host, within some 15 ms. The size of a tensor alone decides: the kernel's logarithms and cosines
 * may differ from the host's in the last place, and a seed gives the same numbers every time.
 */
const FEW: Readonly<Record<Distribution, number>> = { uniform: 2 ** 18, normal: 2 ** 16 };

/** `offset` + `scale` · x, for x drawn one after the other. */
export interface ScaledDraws {
  readonly distribution: Distribution;
  readonly offset: number;
  readonly scale: number;
}

/** As many numbers as `values` has, from where the stream stands. */
export function fillDrawn<T extends Values>(stream: PhiloxStream, values: T, draws: ScaledDraws): T {
  const { distribution, offset, scale } = draws;
  const words = WORDS_OF[distribution];
  const onHost = (part: Values): void => {
    stream.fill(part, () => offset + scale * stream[distribution]());
  };
  // A launch begins with a block. Numbers that lie across two blocks stay here.
  const before = ((BLOCK - (stream.position % BLOCK)) % BLOCK) / words;
  const kernel =
    values.length >= FEW[distribution] && Number.isInteger(before) ? launchFor(values, draws) : undefined;
  if (!kernel) {
    onHost(values);
    return values;
  }
  onHost(values.subarray(0, before));
  try {
    const most = (BLOCKS * BLOCK) / words;
    for (let from = before; from < values.length; from += most) {
      const count = Math.min(most, values.length - from);
      const { key, position } = stream;
      const block = position / BLOCK;
      const state = Uint32Array.of(...key, block, Math.floor(block / 2 ** 32), stream.stream, count);
      values.set(kernel.run(state, count), from);
      stream.position = position + words * count;
    }
  } finally {
    kernel.dispose();
  }
  return values;
}

/** A launch of the kernel that draws, with memory for its results. */
interface DrawLaunch {
  /** @param state key, block, stream, and how many numbers */
  run(state: Uint32Array, count: number): Values;
  dispose(): void;
}

/** Undefined where there is no CPU device: it needs address space that some systems do not give. */
function launchFor(values: Values, draws: ScaledDraws): DrawLaunch | undefined {
  const t = values instanceof Float32Array ? f32 : f64;
  const numbers = Float64Array.of(draws.offset, draws.scale);
  const buffers: DeviceBuffer[] = [];
  const dispose = (): void => {
    for (const each of buffers) each.device.free(each);
  };
  try {
    const current = currentDevice();
    const device = current.name === 'cpu' ? current : openHelper();
    const program = programFor(device, t, draws.distribution);
    const most = (BLOCKS * BLOCK) / WORDS_OF[draws.distribution];
    for (const bytes of [most * t.bytes, 6 * u32.bytes, numbers.byteLength])
      buffers.push(device.allocate(bytes, 'initial values'));
    const [drawn, state, scale] = buffers as [DeviceBuffer, DeviceBuffer, DeviceBuffer];
    device.write(scale, new Uint8Array(numbers.buffer));
    const run = (given: Uint32Array, count: number): Values => {
      device.write(state, new Uint8Array(given.buffer));
      program.run(buffers);
      const { buffer, byteOffset } = device.peek!(drawn)!;
      return viewAs(t, buffer, byteOffset, count) as Values;
    };
    return { run, dispose };
  } catch (error) {
    dispose();
    if (error instanceof DeviceError || error instanceof OutOfMemoryError) return undefined;
    throw error;
  }
}

const programs = new WeakMap<Device, Map<string, Program>>();

/** The kernel on a device, compiled once: one for tensors of all sizes and all seeds. */
function programFor(device: Device, t: DType, distribution: Distribution): Program {
  const known = programs.get(device) ?? new Map<string, Program>();
  programs.set(device, known);
  const name = `${t.name} ${distribution}`;
  const program =
    known.get(name) ??
    device.compile([
      {
        kernel: drawKernel(t, distribution),
        grid: [BLOCKS / THREADS, 1, 1],
        block: [THREADS, 1, 1],
        args: [0, 1, 2].map((slot) => ({ slot, offset: 0 })),
      },
    ]);
  known.set(name, program);
  return program;
}

/** Each thread draws the numbers of one block. */
const drawKernel = (t: DType, distribution: Distribution) =>
  defineKernel(
    'draw',
    { values: buffer(t), state: buffer(u32), scale: buffer(f64) },
    ({ values, state, scale }, { globalId, f64, i32, mulhi, select, u32, EACH, normal, T }) => {
      const first = globalId.x * EACH;
      const count = i32(state[5]);
      if (first >= count) return;
      const low = state[2] + u32(globalId.x);
      let c0 = low;
      let c1 = select(low < state[2], state[3] + 1, state[3]);
      let c2 = state[4];
      let c3 = u32(0);
      let k0 = state[0];
      let k1 = state[1];
      for (let round = 0; round < 10; round++) {
        const low0 = u32(0xd2511f53) * c0;
        const high0 = mulhi(u32(0xd2511f53), c0);
        const low1 = u32(0xcd9e8d57) * c2;
        const high1 = mulhi(u32(0xcd9e8d57), c2);
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += u32(0x9e3779b9);
        k1 += u32(0xbb67ae85);
      }
      const uniform = (word: number): number => f64(word >> 8) * 2 ** -24;
      const gaussian = (a: number, b: number): number =>
        Math.sqrt(-2 * Math.log(1 - uniform(a))) * Math.cos(2 * Math.PI * uniform(b));
      const put = (i: number, x: number): void => {
        if (first + i < count) values[first + i] = T(scale[0] + scale[1] * x);
      };
      if (normal) {
        put(0, gaussian(c0, c1));
        put(1, gaussian(c2, c3));
      } else {
        put(0, uniform(c0));
        put(1, uniform(c1));
        put(2, uniform(c2));
        put(3, uniform(c3));
      }
    },
    { EACH: BLOCK / WORDS_OF[distribution], normal: distribution === 'normal', T: asCast(t) },
  );
