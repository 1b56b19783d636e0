/** How runs went, from what their folders say. */
import { existsSync, readFileSync } from 'node:fs';
import { FileError } from 'heddle';
import { type RunConfig, RunFolder } from 'heddle/internal/cli/run-folder.js';
import type { Curve, LineChart } from '../line-chart.js';

/** A line of log.jsonl: the means since the line before. */
interface StepLine {
  readonly event: string;
  /** Counted from 1. */
  readonly epoch: number;
  /** Seen in the epoch. */
  readonly examples: number;
  readonly loss: number;
  readonly lr: number;
}

/** What a run's folder says of its training. */
export interface RunHistory {
  readonly path: string;
  readonly config: RunConfig;
  readonly epochs: ReturnType<typeof RunFolder.figures>;
  readonly steps: readonly StepLine[];
}

/** @throws ArgumentError unless it is the folder of a run, FileError for a line that is not JSON */
export function historyOf(path: string): RunHistory {
  const { config, folder } = RunFolder.open(path);
  return { path, config, epochs: RunFolder.figures(path), steps: stepsOf(folder.log) };
}

function stepsOf(file: string): StepLine[] {
  if (!existsSync(file)) return [];
  return readFileSync(file, 'utf8')
    .split('\n')
    .flatMap((line, i): StepLine[] => {
      if (line === '') return [];
      try {
        const read = JSON.parse(line) as StepLine;
        return read.event === 'step' ? [read] : [];
      } catch (error) {
        throw new FileError(file, `line ${i + 1} is not JSON (${(error as Error).message}).`, {
          cause: error,
        });
      }
    });
}

type Point = readonly [x: number, y: number];

/** Epochs that are done by a step. */
const epochOf = ({ epoch, examples }: StepLine, { config }: RunHistory): number =>
  epoch - 1 + Math.min(1, examples / config.data.train);

/** Of every so many steps, or of the epochs where steps were not written. */
const trainingLoss = (run: RunHistory): Point[] =>
  run.steps.length > 1
    ? run.steps.map((line) => [epochOf(line, run), line.loss])
    : run.epochs.map(({ epoch, loss }) => [epoch, loss]);

const learningRate = (run: RunHistory): Point[] =>
  run.steps.length > 1
    ? run.steps.map((line) => [epochOf(line, run), line.lr])
    : run.epochs.map(({ epoch, lr }) => [epoch, lr]);

const testFigure = (run: RunHistory, name: string): Point[] =>
  run.epochs.flatMap(({ epoch, test }) => (test?.[name] === undefined ? [] : [[epoch, test[name]] as const]));

/**
 * The charts of a run, or of several beside one another: loss, accuracy, learning rate. Those without a figure are left
 * out.
 * @param paths folders that `heddle train` has written
 * @example for (const chart of runCurves(['runs/a', 'runs/b'])) svgs.push(lineChart(chart));
 * @throws ArgumentError, FileError
 */
export const runCurves = (paths: readonly string[]): LineChart[] => chartsOf(paths.map(historyOf));

/** The same of what was read. */
export function chartsOf(runs: readonly RunHistory[]): LineChart[] {
  const several = runs.length > 1;
  const named = (run: RunHistory, what: string): string => (several ? run.path : what);
  const each = (what: string, points: (run: RunHistory) => Point[]): Curve[] =>
    runs.map((run) => ({ name: named(run, what), points: points(run) }));
  const isOf = (data: 'vocabulary' | 'tokenizer'): boolean =>
    runs.every(({ config }) => config.data[data] !== undefined);
  const unit = isOf('vocabulary') ? 'nats per character' : isOf('tokenizer') ? 'nats per token' : 'nats';
  const training = each('training', trainingLoss);
  const test = each('test', (run) => testFigure(run, 'loss'));
  const accuracy = each('test', (run) => testFigure(run, 'accuracy'));
  const charts: readonly LineChart[] = [
    ...(several
      ? [
          { title: 'Training loss', x: 'epoch', y: `loss (${unit})`, curves: training },
          { title: 'Test loss', x: 'epoch', y: `loss (${unit})`, curves: test },
        ]
      : [{ title: 'Loss', x: 'epoch', y: `loss (${unit})`, curves: [...training, ...test] }]),
    { title: 'Test accuracy', x: 'epoch', y: 'accuracy (%)', format: 'percent', curves: accuracy },
    { title: 'Learning rate', x: 'epoch', y: 'learning rate', curves: each('learning rate', learningRate) },
  ];
  return charts.flatMap((chart) => {
    const curves = chart.curves.filter(({ points }) => points.length > 0);
    return curves.length > 0 ? [{ ...chart, curves }] : [];
  });
}
