/**
 * Products of bytes on a CPU: the kernels of f32 (matmul/cpu.ts, conv2d/cpu.ts) on words of four bytes. A word's product is one
 * step (`dp4a`), so that sums have a quarter of the steps. Where no byte of the image is negative, as after ReLU, WebAssembly has
 * an instruction for it: vpdpbusd or three others on x86. Otherwise bytes become pairs of 16 bits first.
 *
 * The words of a matrix are its own bytes, four along K. Those of an image are made as its rows are copied: four channels, or,
 * where there are fewer, four neighbours along a row, which are taps of the kernel. Taps and channels that there are not have weights
 * of 0.
 */
import { type DType, i8, i32 } from '../../core/dtype.js';
import type { KernelChoice, KernelIo, Stage } from '../../graph/fused-op.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel, type Intrinsics, type Memory } from '../../kernel/language/language.js';
import { outputSize } from '../conv2d/arg.js';
import {
  type BandPlace,
  type ConvolveContext,
  type CpuArithmetic,
  convolve,
  packedWeights,
} from '../conv2d/cpu.js';
import type { CpuConvolveProblem } from '../conv2d/cpu-layout.js';
import { convolveProblem } from '../conv2d/problem.js';
import { matmulDot } from '../matmul/cpu.js';
import { SPREAD, stage } from '../stage.js';
import type { Tiled } from '../tiled.js';
import type { BytesArg, ConvolveBytesArg } from './arg.js';
import { wordsOf } from './words.js';

const products = (x: number, y: number, sum: number, { dp4a }: Intrinsics): number => dp4a(x, y, sum);
const positiveProducts = (x: number, y: number, sum: number, { dp4aPositive }: Intrinsics): number =>
  dp4aPositive(x, y, sum);
/** With the positive bytes on the other side. */
const turnedProducts = (x: number, y: number, sum: number, { dp4aPositive }: Intrinsics): number =>
  dp4aPositive(y, x, sum);

/** Rows of both matrices begin at whole words. */
export const matmulBytesCpu: KernelChoice<BytesArg> = {
  name: 'matmulInteger-cpu',
  when: ({ model }, { src }) => model === 'blocks' && src[0]!.shape[1]! % 4 === 0 && src[0]!.size > 0,
  finishes: true,
  storesAny: true,
  plan: (io, { positive }) => {
    const problem = wordsOf(io);
    const product = matmulDot(problem, {
      ...{ name: 'Bytes', element: i32, output: io.output.dtype, level: problem.K },
      multiply: positive ? turnedProducts : products,
    });
    return [stage(product, { input: 0 }, { input: 1 }, { output: true })];
  },
};

/** How words are made of an image's bytes. */
interface Words {
  /** Channels of a group. */
  readonly channels: number;
  /** Columns from a byte of a word to the next; 0: they are channels. */
  readonly step: number;
  /** The kernel's columns. */
  readonly taps: number;
}

/** A convolution of words: `inputs` and the kernel's columns count words. */
interface WordProblem extends CpuConvolveProblem {
  readonly words: Words;
}

function wordProblem(io: KernelIo, arg: ConvolveBytesArg): WordProblem {
  const p = { ...convolveProblem(io, arg), leastBlocks: SPREAD * io.target.units };
  const channels = p.inputs;
  const taps = p.kernel[1];
  // Whichever leaves fewer bytes of the words empty.
  const ofTaps = channels * Math.ceil(taps / 4) < taps * Math.ceil(channels / 4);
  if (!ofTaps) return { ...p, inputs: Math.ceil(channels / 4), words: { channels, step: 0, taps } };
  const step = p.dilation[1];
  return {
    ...p,
    kernel: [p.kernel[0], Math.ceil(taps / 4)],
    dilation: [p.dilation[0], 4 * step],
    words: { channels, step, taps },
  };
}

interface WordContext extends ConvolveContext {
  readonly words: Words;
  readonly wordAt: typeof wordAt;
  readonly copyWords: typeof copyWords;
}

/** The word at a column of a row that begins `from`; `first` is its first channel. */
function wordAt(x: Memory, from: number, first: number, column: number, context: WordContext): number {
  const { i32, problem, words } = context;
  const { size } = problem;
  const { channels, step } = words;
  const byte = (b: number) => {
    const at = column + b * step;
    const inside = at >= 0 && at < size[1] && (step > 0 || first + b < channels);
    const place = step > 0 ? at : at + b * (size[0] * size[1]);
    return inside ? (i32(x[from + place]) & 255) << (8 * b) : 0;
  };
  return byte(0) | byte(1) | byte(2) | byte(3);
}

/** Copies a row as words: phase by phase, for strides; four at once where all their bytes are inside. */
function copyWords(
  x: Memory,
  from: number,
  first: number,
  copy: Memory,
  to: number,
  context: WordContext,
): void {
  const { i32, idiv, load4, problem, row, splat4, store4, wordAt } = context;
  const { size } = problem;
  const { channels, step } = context.words;
  const plane = step > 0 ? step : size[0] * size[1];
  const inside = Math.min(size[1] - 3 * step, row.pitch - row.left);
  const whole = row.by === 1 ? Math.max(0, inside - (inside % 4)) : 0;
  const count = step > 0 ? 4 : Math.min(4, channels - first);
  const left = whole > 0 ? row.left : row.pitch;
  for (let i = 0; i < left; i++) {
    const column = idiv(i, row.phase) + row.by * (i % row.phase) - row.left;
    copy[to + i] = wordAt(x, from, first, column, context);
  }
  for (let c = 0; c < whole; c += 4) {
    const byte = (b: number) => i32(load4(x, from + c + b * plane));
    let words = byte(0) & splat4(255);
    if (count > 1) words |= (byte(1) & splat4(255)) << splat4(8);
    if (count > 2) words |= (byte(2) & splat4(255)) << splat4(16);
    if (count > 3) words |= byte(3) << splat4(24);
    store4(copy, to + row.left + c, words);
  }
  for (let i = left + whole; i < row.pitch; i++) copy[to + i] = wordAt(x, from, first, i - row.left, context);
}

/** Copies the rows of the image that the block reads, the words of a row together. */
function copyRowsOfWords(x: Memory, copy: Memory, block: BandPlace, given: ConvolveContext): void {
  const context = given as WordContext;
  const { problem, row, band, copyWords, words } = context;
  const { groups, inputs, size, imageOffset } = problem;
  const plane = size[0] * size[1];
  const image = imageOffset + (block.image * groups + block.group) * words.channels * plane;
  const rows = Math.min(band.held, size[0] - block.firstRow);
  const channelsOfWord = words.step > 0 ? 1 : 4;
  for (let r = 0; r < rows; r++) {
    let k = 0;
    while (k < inputs) {
      const first = k * channelsOfWord;
      const from = image + first * plane + (block.firstRow + r) * size[1];
      copyWords(x, from, first, copy, (r * inputs + k) * row.pitch, context);
      k += 1;
    }
  }
}

/** Words of weights of 4 output channels side by side, in the order in which a tile reads them: column, row, channels. */
function packWords({ words, groups, inputs, outputs, kernel, weightOffset }: WordProblem): Tiled {
  const quads = Math.ceil(outputs / 4);
  const ir = defineKernel(
    'convIntegerPack',
    { w: buffer(i8), packed: buffer(i32) },
    ({ w, packed }, context) => {
      const { blockIdx, i32, idiv, words, quads, inputs, outputs, kernel, weightOffset } = context;
      const { channels, step, taps } = words;
      const o = (blockIdx.x % quads) * 4;
      const group = idiv(blockIdx.x, quads) * outputs;
      const steps = kernel[0] * kernel[1] * inputs;
      let t = 0;
      while (t < steps) {
        const k = t % inputs;
        const ky = idiv(t, inputs) % kernel[0];
        const kx = idiv(t, kernel[0] * inputs);
        for (let i = 0; i < 4; i++) {
          const byte = (b: number) => {
            const channel = step > 0 ? k : 4 * k + b;
            const tap = step > 0 ? 4 * kx + b : kx;
            const inside = channel < channels && tap < taps && o + i < outputs;
            const at = weightOffset + (((group + o + i) * channels + channel) * kernel[0] + ky) * taps + tap;
            return inside ? (i32(w[at]) & 255) << (8 * b) : 0;
          };
          packed[(blockIdx.x * steps + t) * 4 + i] = byte(0) | byte(1) | byte(2) | byte(3);
        }
        t += 1;
      }
    },
    { words, quads, inputs, outputs, kernel, weightOffset },
  );
  return { kernel: ir, blocks: groups * quads };
}

const convolution = (words: Words, positive: boolean, output: DType): CpuArithmetic => ({
  ...{ name: 'Bytes', image: i8, element: i32, output, copyRows: copyRowsOfWords },
  multiply: positive ? positiveProducts : products,
  constants: { words, wordAt, copyWords },
});

function convolveStages(io: KernelIo, arg: ConvolveBytesArg): Stage[] {
  const problem = wordProblem(io, arg);
  const packed = { scratch: 'weights', bytes: 4 * packedWeights(problem) };
  return [
    stage(packWords(problem), { input: 1 }, packed),
    stage(
      convolve(problem, convolution(problem.words, arg.positive, io.output.dtype)),
      { input: 0 },
      packed,
      { output: true },
    ),
  ];
}

/** As of f32, rows of at least one vector. */
export const convolveBytesCpu: KernelChoice<ConvolveBytesArg> = {
  name: 'convInteger-cpu',
  when: ({ model }, { src }, arg) =>
    model === 'blocks' && src.every((s) => s.size > 0) && outputSize(arg)[1] >= 4,
  finishes: true,
  storesAny: true,
  plan: convolveStages,
};
