/** What the commands on runs have in common: the device, and the data that a program is trained on and judged by. */
import { relative } from 'node:path';
import { ArgumentError } from '../core/errors.js';
import { formatShape, sameShape } from '../core/shape.js';
import { type ArrayDataset, Loader, loadImages, quadrantPoints, separablePoints } from '../data/index.js';
import { listDevices } from '../runtime/registry.js';
import { useDevice } from '../tensor/modes.js';
import type { TrainingProgram } from '../train/programs.js';

/**
 * Larger ones take more memory for what lies between the layers, and save little: with batches of 1,000, a seventh of the
 * time of a pass over the test images.
 */
const EVALUATION_BATCH = 200;

/** The batches that a model is judged by. */
export const evaluationLoader = (test: ArrayDataset): Loader =>
  new Loader(test, { batchSize: Math.min(EVALUATION_BATCH, test.length) });

/** Open the device. @returns why it is this one */
export function chooseDevice(name: string | undefined): string {
  if (name !== undefined) {
    useDevice(name);
    return 'as asked by --device';
  }
  if (process.env.HEDDLE_DEVICE) return 'as asked by HEDDLE_DEVICE';
  const missing = listDevices().filter((d) => !d.available);
  const others = missing.map((d) => `; no ${d.name}: ${d.reason}`).join('');
  return `the fastest found${others}`;
}

/** The data of a run. */
export interface RunData {
  /** For people. */
  readonly name: string;
  readonly source: string;
  readonly train: ArrayDataset;
  readonly test: ArrayDataset;
  /** What the classes are called. */
  readonly classes: readonly string[];
}

/** Which data: those of `--data`, or of the program. */
interface DataPlan {
  readonly program: TrainingProgram;
  readonly data: string | undefined;
  readonly seed: number;
  /** Use only the first ones to train on. */
  readonly limit?: number | undefined;
}

/** The data that a program is trained on and judged by. */
export async function loadData({ program, data, seed, limit }: DataPlan): Promise<RunData> {
  const { train, test, ...described } =
    program.data === 'images' ? await images(program, data) : points(program, data, seed);
  const length = Math.min(limit ?? train.length, train.length);
  return { ...described, train: length < train.length ? train.slice(0, length) : train, test };
}

async function images(program: TrainingProgram, data = 'mnist'): Promise<RunData> {
  const { train, test, source, classes } = await loadImages(data);
  const expected = [1, 28, 28];
  if (!sameShape(train.inputShape, expected) || classes.length !== 10) {
    throw new ArgumentError(
      `${program.name} takes images of ${formatShape(expected)} in 10 classes, ${source} has ` +
        `${formatShape(train.inputShape)} in ${classes.length}. Choose other --data.`,
    );
  }
  return { name: data === source ? data : `${data} (${near(source)})`, source, train, test, classes };
}

/** Relative to the working folder where it is in it. */
function near(path: string): string {
  const below = relative(process.cwd(), path);
  return below.startsWith('..') ? path : below;
}

function points(program: TrainingProgram, data: string | undefined, seed: number): RunData {
  if (data !== undefined) {
    throw new ArgumentError(`${program.name} makes its own data from --seed: leave --data ${data} out.`);
  }
  const make = program.data === 'separable' ? separablePoints : quadrantPoints;
  const name = `points made from seed ${seed}`;
  return { name, source: name, classes: ['0', '1'], ...make({ seed }) };
}
