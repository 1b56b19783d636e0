/** `heddle bench data`: images in files, as the loader gives them and as sharp alone decodes them. */
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ArgumentError } from 'heddle';
import { type Dataset, Loader } from 'heddle/data';
import {
  type Circumstances,
  circumstances,
  type Spread,
  spreadOf,
  writeResults,
} from 'heddle/internal/cli/figures.js';
import { PhiloxStream } from 'heddle/internal/core/philox.js';
import type { default as Sharp } from 'sharp';

export interface BenchDataOptions {
  /** How many there are. */
  readonly images: number;
  /** Pixels of a side. */
  readonly size: number;
  readonly rounds: number;
  /** Threads of the loader. */
  readonly workers: number;
  /** Where the results go. Default: `bench/results/data-<date>.json`. */
  readonly json?: string;
}

/** Images per second of a pass over all of them. */
interface DataFigure extends Spread {
  readonly unit: 'images/s';
  /** Of the processor, for an image, over all passes. */
  readonly processorMicroseconds: number;
}

interface DataResults extends Circumstances {
  readonly benchmark: 'data';
  readonly method: string;
  readonly images: number;
  readonly size: number;
  readonly workers: number;
  readonly sharp: DataFigure;
  /** Batches of bytes in planes, as a training takes them. */
  readonly loader: DataFigure;
  /** Of each round: the loader's rate / sharp's. */
  readonly ratio: Spread;
  /** The same with batches of f32. */
  readonly floats: DataFigure;
  readonly floatRatio: Spread;
}

/** What is used of heddle-data. */
interface DataPackage {
  imageFolder(root: string, options: { size: number }): Promise<Dataset & { path(index: number): string }>;
}

/** How a training takes batches of a loader: a method of its own. */
interface TrainingLoader {
  spans(options: {
    readonly together: () => number;
    readonly most: number;
    readonly bytes: boolean;
  }): AsyncIterable<unknown>;
}

const BATCH = 64;
/** Images that are decoded at a time, by both: as many as libuv has threads. */
const CONCURRENCY = Number(process.env.UV_THREADPOOL_SIZE ?? 4);

async function packages(): Promise<{ readonly data: DataPackage; readonly sharp: typeof Sharp }> {
  const [data, codec]: string[] = ['heddle-data', 'sharp'];
  try {
    return {
      data: (await import(data!)) as DataPackage,
      sharp: ((await import(codec!)) as { default: typeof Sharp }).default,
    };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== 'ERR_MODULE_NOT_FOUND' || !/'(heddle-data|sharp)'/.test(message)) throw error;
    throw new ArgumentError('heddle bench data needs two packages: npm install heddle-data sharp');
  }
}

/** Smooth colours, waves and noise, so that a JPEG has the bytes of a small photo: about 25 KB for 256 × 256. */
async function writeImages(
  sharp: typeof Sharp,
  root: string,
  { images, size }: BenchDataOptions,
): Promise<void> {
  const pixels = new Uint8ClampedArray(3 * size * size);
  for (let i = 0; i < images; i++) {
    const random = new PhiloxStream(1, i);
    const [red, green, blue, waves] = Array.from({ length: 4 }, () => random.uniform()) as [
      number,
      number,
      number,
      number,
    ];
    for (let y = 0; y < size; y++)
      for (let x = 0; x < size; x++) {
        const wave = 30 * (Math.sin((60 * waves * x) / size) + Math.cos((50 * waves * y) / size)) + 50;
        // One number for a pixel: drawing them is most of the time that the files take.
        const noise = ((random.next() & 255) - 128) * 0.16;
        const at = 3 * (y * size + x);
        pixels[at] = (255 * red * x) / size + wave + noise;
        pixels[at + 1] = (255 * green * y) / size + wave - noise;
        pixels[at + 2] = (128 * blue * (x + y)) / size + wave + noise;
      }
    const folder = join(root, `class-${i % 10}`);
    if (!existsSync(folder)) mkdirSync(folder);
    const raw = { width: size, height: size, channels: 3 } as const;
    writeFileSync(join(folder, `${i}.jpg`), await sharp(pixels, { raw }).jpeg({ quality: 85 }).toBuffer());
  }
}

/** Compare the loader with sharp on the same files, in turns. */
export async function benchData(options: BenchDataOptions): Promise<number> {
  const { data, sharp } = await packages();
  const root = mkdtempSync(join(tmpdir(), 'heddle-bench-'));
  try {
    await writeImages(sharp, root, options);
    const folder = await data.imageFolder(root, { size: options.size });
    const loader = new Loader(folder, { batchSize: BATCH, workers: options.workers, prefetch: 2 });
    const asTaken = loader as unknown as TrainingLoader;
    const byLoader = async (): Promise<void> => {
      for await (const _ of asTaken.spans({ together: () => 1, most: 1, bytes: true }));
    };
    const floats = async (): Promise<void> => {
      for await (const _ of loader);
    };
    const alone = async (): Promise<void> => {
      let next = 0;
      const run = async (): Promise<void> => {
        while (next < folder.length) await sharp(folder.path(next++)).raw().toBuffer();
      };
      await Promise.all(Array.from({ length: CONCURRENCY }, run));
    };
    const results = await measure({ alone, byLoader, floats }, options);
    const { images, size, sharp: ofSharp, loader: ofLoader, ratio, floatRatio } = results;
    process.stdout.write(
      `${images} JPEGs of ${size} × ${size}, ${CONCURRENCY} at a time, ${options.workers} workers\n` +
        `sharp alone  ${ofSharp.median} images/s, ${ofSharp.processorMicroseconds} µs of processor time each\n` +
        `the loader   ${ofLoader.median} images/s, ${ofLoader.processorMicroseconds} µs\n` +
        `  in f32     ${results.floats.median} images/s, ${results.floats.processorMicroseconds} µs\n` +
        `ratio        ${ratio.median} (${ratio.min} to p90 ${ratio.p90}), in f32 ${floatRatio.median}\n`,
    );
    const path = options.json ?? join('bench', 'results', `data-${results.date.slice(0, 10)}.json`);
    await writeResults(path, results);
    process.stdout.write(`written to ${path}\n`);
    return 0;
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

/** Passes over all images. */
type Ways = Readonly<Record<'alone' | 'byLoader' | 'floats', () => Promise<void>>>;

/** Of a pass: images/s, and µs of the processor for each. */
interface Pass {
  readonly rate: number;
  readonly processor: number;
}

async function measure(
  ways: Ways,
  { images, size, rounds, workers }: BenchDataOptions,
): Promise<DataResults> {
  const timed = async (work: () => Promise<void>): Promise<Pass> => {
    const before = process.cpuUsage();
    const start = performance.now();
    await work();
    const seconds = (performance.now() - start) / 1000;
    const { user, system } = process.cpuUsage(before);
    return { rate: images / seconds, processor: (user + system) / images };
  };
  const passes: Readonly<Record<keyof Ways, Pass[]>> = { alone: [], byLoader: [], floats: [] };
  const names = ['alone', 'byLoader', 'floats'] as const;
  for (const name of names) await ways[name]();
  for (let round = 0; round < rounds; round++)
    // The other way round every other time: a machine that gets slower favours none of them.
    for (const name of round % 2 === 0 ? names : names.toReversed())
      passes[name].push(await timed(ways[name]));
  const figure = (of: readonly Pass[]): DataFigure => ({
    ...spreadOf(of.map(({ rate }) => rate)),
    unit: 'images/s',
    processorMicroseconds: spreadOf(of.map(({ processor }) => processor)).median,
  });
  const ratioOf = (of: readonly Pass[]): Spread =>
    spreadOf(of.map(({ rate }, i) => rate / passes.alone[i]!.rate));
  return {
    ...circumstances(`heddle bench data --images ${images} --size ${size}`),
    benchmark: 'data',
    method:
      'Passes over the same files in turns, after one of each: sharp(path).raw().toBuffer(), and batches of 64 from the loader, ' +
      'in planes of bytes and of f32, with as many images decoded at a time. The images are smooth colours, waves and noise, ' +
      'JPEG quality 85.',
    ...{ images, size, workers },
    ...{ sharp: figure(passes.alone), loader: figure(passes.byLoader), floats: figure(passes.floats) },
    ...{ ratio: ratioOf(passes.byLoader), floatRatio: ratioOf(passes.floats) },
  };
}
