/** `heddle runs`: past runs in a table, side by side, and as curves. */
import { existsSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { ArgumentError, FileError } from '../core/errors.js';
import { type Curve, textCurves } from './curves.js';
import { duration, percent, table } from './format.js';
import { type EpochFiguresLine, type RunConfig, RunFolder } from './run-folder.js';
import { svgFile } from './svg-file.js';
import { widthOf } from './terminal.js';

interface PastRun {
  readonly path: string;
  readonly config: RunConfig;
  readonly figures: readonly EpochFiguresLine[];
}

const runAt = (path: string): PastRun => ({
  path,
  config: RunFolder.open(path).config,
  figures: RunFolder.figures(path),
});

const say = (text: string): void => void process.stdout.write(`${text}\n`);

/** The runs in a folder, the oldest first. */
export function listRuns(folder: string): void {
  if (!existsSync(folder))
    throw new FileError(folder, 'no such folder. Train something first: heddle train mlp.');
  const runs = readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && existsSync(join(folder, entry.name, 'config.json')))
    .map(({ name }) => runAt(join(folder, name)))
    .sort((a, b) => (a.config.started < b.config.started ? -1 : 1));
  if (runs.length === 0) {
    say(`${folder} has no runs.`);
    return;
  }
  const rows = runs.map(({ path, config, figures }) => [
    path,
    config.program,
    dataOf(config),
    `${figures.length}/${config.recipe.epochs}`,
    ...resultsOf(figures),
  ]);
  say(table(['run', 'program', 'data', 'epochs', 'loss', 'test loss', 'accuracy', 'best', 'seconds'], rows));
}

function dataOf({ data: { set, source, vocabulary, tokenizer } }: RunConfig): string {
  if (vocabulary !== undefined || tokenizer !== undefined) return basename(source);
  return set ?? (source.startsWith('points') ? 'points' : 'mnist');
}

/** Last training loss, test loss and accuracy, the best accuracy, and the seconds of training. */
function resultsOf(figures: readonly EpochFiguresLine[]): string[] {
  const last = figures.at(-1);
  const accuracies = figures.flatMap(({ test }) => test?.accuracy ?? []);
  return [
    last?.loss.toFixed(4) ?? '–',
    last?.test?.loss?.toFixed(4) ?? '–',
    accuracies.length > 0 ? percent(accuracies.at(-1)!) : '–',
    accuracies.length > 0 ? percent(Math.max(...accuracies)) : '–',
    duration(figures.reduce((sum, { seconds }) => sum + seconds, 0)),
  ];
}

/** Runs side by side, a column each: the settings that differ, then what came of them. */
export function comparisonOf(paths: readonly string[]): readonly (readonly string[])[] {
  const runs = paths.map(runAt);
  const settings = runs.map(({ config }) => ({
    program: config.program,
    data: config.data.source,
    examples: config.data.train,
    ...config.recipe,
    seed: config.seed,
    device: config.device.name,
    heddle: config.heddle,
  }));
  const names = [...new Set(settings.flatMap((s) => Object.keys(s)))];
  const setting = (i: number, name: string): string =>
    String((settings[i] as Readonly<Record<string, unknown>>)[name] ?? '–');
  const differing = names.filter((name) => new Set(runs.map((_, i) => setting(i, name))).size > 1);
  const results = runs.map(({ figures }) => resultsOf(figures));
  const labels = ['loss', 'test loss', 'accuracy', 'best accuracy', 'seconds'];
  return [
    ...differing.map((name) => [name, ...runs.map((_, i) => setting(i, name))]),
    ...labels.map((label, row) => [label, ...results.map((result) => result[row]!)]),
  ];
}

/** Print that. */
export const compareRuns = (paths: readonly string[]): void =>
  say(table(['', ...paths], comparisonOf(paths)));

/** What `plot` can show. */
export const FIGURES = ['accuracy', 'loss', 'test-loss', 'lr'] as const;

/** What is along the y axis. */
const UNITS = {
  accuracy: 'test accuracy',
  loss: 'training loss',
  'test-loss': 'test loss',
  lr: 'learning rate',
} as const satisfies Record<(typeof FIGURES)[number], string>;

export interface PlotOptions {
  readonly figure: (typeof FIGURES)[number];
  readonly svg?: string;
}

/** A figure of runs over their epochs. */
export async function plotRuns(paths: readonly string[], { figure, svg }: PlotOptions): Promise<void> {
  const drawing = await svgFile(svg);
  const of = ({ loss, lr, test }: EpochFiguresLine): number | undefined =>
    ({ accuracy: test?.accuracy, loss, 'test-loss': test?.loss, lr })[figure];
  const curves: Curve[] = paths.map(runAt).map(({ path, config, figures }) => ({
    name: `${path} (${config.program})`,
    points: figures.flatMap((line) => {
      const value = of(line);
      return value === undefined ? [] : [[line.epoch, value] as const];
    }),
  }));
  if (curves.every(({ points }) => points.length === 0))
    throw new ArgumentError(`no epoch of ${paths.join(', ')} has the figure '${figure}'.`);
  say(`${figure} by epoch\n${textCurves(curves, Math.min(100, widthOf(process.stdout)))}`);
  const format = figure === 'accuracy' ? 'percent' : 'number';
  await drawing?.((look) =>
    look.lineChart({ title: `${figure} by epoch`, x: 'epoch', y: UNITS[figure], format, curves }),
  );
}
