/** `heddle look`: the pictures of a run in a folder, and the report with all of them. */
import { join } from 'node:path';
import { ArgumentError } from 'heddle';
import { writeText } from 'heddle/internal/cli/figures.js';
import { StatusLine } from 'heddle/internal/cli/terminal.js';
import { unknownName } from 'heddle/internal/core/arguments.js';
import { writeFileAtomic } from 'heddle/io';
import { lineChart } from '../line-chart.js';
import { toPng } from '../png.js';
import { reportOfRun, reportOfRuns } from '../report/report.js';
import { chartsOf, historyOf, type RunHistory } from './curves.js';
import { PICTURES, type PictureName } from './names.js';
import type { Drawn, LookOptions } from './options.js';
import { type Drawing, MAKERS } from './pictures.js';
import { type Subject, subjectOf } from './subject.js';

/** Pixels of a picture in the report, which is read on phones as well. */
const NARROW = 400;

/** @param say prints a line */
export async function look(paths: readonly string[], options: LookOptions, say: Say): Promise<void> {
  const names = namesOf(options.only);
  const histories = paths.map(historyOf);
  const folder = options.out ?? (paths.length === 1 ? join(paths[0]!, 'look') : 'look');
  const work = { folder, options, say };
  await (paths.length === 1 ? lookAt(histories[0]!, names, work) : compare(histories, work));
}

type Say = (line: string) => void;

/** What is asked for, and where it goes. */
interface Work {
  readonly folder: string;
  readonly options: LookOptions;
  readonly say: Say;
}

/** @throws ArgumentError naming the nearest picture */
function namesOf(only: readonly string[] | undefined): readonly PictureName[] {
  const all = Object.keys(PICTURES) as PictureName[];
  for (const name of only ?? [])
    if (!(all as readonly string[]).includes(name))
      throw new ArgumentError(unknownName('look', 'picture', name, all));
  return only ? all.filter((name) => only.includes(name)) : all;
}

async function compare(histories: readonly RunHistory[], work: Work): Promise<void> {
  const others = (work.options.only ?? []).filter((name) => name !== 'curves');
  if (others.length > 0)
    throw new ArgumentError(
      `several runs are compared by their curves: leave --only ${others.join(',')} out.`,
    );
  const svgs = await write(curvesOf(histories), work);
  await report(work, reportOfRuns(histories, svgs));
}

async function lookAt(history: RunHistory, names: readonly PictureName[], work: Work): Promise<void> {
  const { options, say } = work;
  const line = new StatusLine(process.stderr);
  const status = (text: string): void => line.show((columns) => text.slice(0, columns));
  const drawn: Drawn[] = [];
  let subject: Subject | undefined;
  try {
    for (const name of names) {
      status(`${name} …`);
      if (name !== 'curves') subject ??= await opened(history, work, status);
      const made = await madeBy(name, history, subject, options);
      line.clear();
      if (typeof made === 'string') {
        say(`${name.padEnd(WIDEST)}left out: ${made}`);
        drawn.push({ name, svgs: [], leftOut: made });
      } else drawn.push({ name, svgs: await write(made, work, name) });
    }
  } finally {
    line.clear();
  }
  await report(work, await reportOfRun(history, subject, drawn));
}

const WIDEST = Math.max(...Object.keys(PICTURES).map((name) => name.length)) + 2;

async function opened(
  { path }: RunHistory,
  { options, say }: Work,
  status: (text: string) => void,
): Promise<Subject> {
  const subject = await subjectOf(path, options, status);
  say(`${'weights'.padEnd(WIDEST)}${subject.file}`);
  say(`${'data'.padEnd(WIDEST)}${subject.data.name}`);
  return subject;
}

const curvesOf = (histories: readonly RunHistory[]): Drawing[] =>
  chartsOf(histories).map((chart) => ({
    file: `curves-${chart.title.toLowerCase().replaceAll(' ', '-')}`,
    draw: (options) => lineChart(chart, options),
  }));

/** What can be drawn, or why nothing can: what is asked for by name and cannot be drawn is an error. */
async function madeBy(
  name: PictureName,
  history: RunHistory,
  subject: Subject | undefined,
  { only }: LookOptions,
): Promise<readonly Drawing[] | string> {
  if (name === 'curves') {
    const curves = curvesOf([history]);
    return curves.length > 0 ? curves : 'the run has no figures yet';
  }
  const made = await MAKERS[name](subject!);
  if (typeof made === 'string' && only) throw new ArgumentError(`--only ${name}: ${made}.`);
  return made;
}

/** Write pictures, and say so. @returns them as the report has them */
async function write(
  drawings: readonly Drawing[],
  { folder, options, say }: Work,
  name: PictureName = 'curves',
): Promise<string[]> {
  const { png = false } = options;
  const svgs: string[] = [];
  for (const { file, draw } of drawings) {
    const path = join(folder, file);
    const svg = await draw({});
    await writeText(`${path}.svg`, svg);
    if (png) await writeFileAtomic(`${path}.png`, await toPng(svg));
    say(`${name.padEnd(WIDEST)}${path}.svg${png ? ' and .png' : ''}`);
    svgs.push(await draw({ width: NARROW }));
  }
  return svgs;
}

async function report({ folder, say }: Work, html: string): Promise<void> {
  const path = join(folder, 'report.html');
  await writeText(path, html);
  say(`${'report'.padEnd(WIDEST)}${path}`);
}
