/** `heddle profile`: one training step, launch by launch. */
import { recordOrigins } from '../graph/origin.js';
import { closeDevices } from '../runtime/registry.js';
import { useDevice } from '../tensor/modes.js';
import { optimizerOf, programNamed } from '../train/programs.js';
import { measureCeilings, realDevice } from './ceilings.js';
import { circumstances, measuredDevice, rounded, spreadOf, writeResults } from './figures.js';
import { percent, table } from './format.js';
import { figuresOf, type LaunchFigures } from './launch-figures.js';
import type { StepProfile } from './step-profile.js';
import { svgFile } from './svg-file.js';
import { widthOf, wrapped } from './terminal.js';
import { TrainingSteps } from './training-steps.js';

export interface ProfileCommandOptions {
  readonly batchSize?: number;
  readonly device?: string;
  /** Where the figures go. Default: nowhere. */
  readonly json?: string;
  /** Where the roofline goes. Default: nowhere. */
  readonly svg?: string;
}

/** Profile a step of a program and print it. @returns the exit code */
export async function profile(name: string, options: ProfileCommandOptions): Promise<number> {
  if (options.device !== undefined) useDevice(options.device);
  try {
    const drawing = await svgFile(options.svg);
    const figures = await profileStep(name, options);
    process.stdout.write(`${profileReport(figures, widthOf(process.stdout))}\n`);
    if (options.json !== undefined) {
      await writeResults(options.json, figures);
      process.stdout.write(`\nWritten to ${options.json}\n`);
    }
    await drawing?.((look) => look.rooflineChart(figures));
    return 0;
  } finally {
    await closeDevices();
  }
}

/** @throws ArgumentError for a program that does not exist */
export async function profileStep(
  name: string,
  { batchSize: asked, device: chosen }: Omit<ProfileCommandOptions, 'json' | 'svg'> = {},
): Promise<StepProfile> {
  const program = programNamed(name);
  const { recipe } = program;
  const batchSize = asked ?? recipe.batchSize;
  const device = realDevice();
  const ceilings = await measureCeilings(device);
  recordOrigins(true);
  const steps = new TrainingSteps(program, {
    optimizer: (parameters) => optimizerOf(recipe, parameters),
    batchSize,
    batches: 1,
  });
  const { us, launches } = await steps.profile().finally(() => recordOrigins(false));
  steps.dispose();
  const sumUs = launches.reduce((sum, launch) => sum + launch.us, 0);
  const command = [
    `npx heddle profile ${name}`,
    ...(asked === undefined ? [] : [`--batch-size ${asked}`]),
    ...(chosen === undefined ? [] : [`--device ${chosen}`]),
  ].join(' ');
  return {
    profile: name,
    ...circumstances(command),
    batchSize,
    device: measuredDevice(device),
    us: spreadOf(us).median,
    sumUs: rounded(sumUs),
    ...figuresOf(launches, ceilings, device.target),
  };
}

/** The figures as a table. Where a terminal is too narrow for it, a launch's places are on a line of their own. */
export function profileReport(
  { profile: name, batchSize, device, us, sumUs, ceilings, launches }: StepProfile,
  columns = Number.POSITIVE_INFINITY,
): string {
  const figures = launches.map((l, i) => [
    l.name,
    String(i + 1),
    String(l.level),
    l.us.toFixed(2),
    percent(l.share),
    quantity(l.bytes),
    l.flops === undefined ? '' : quantity(l.flops),
    percent(l.ofRoofline),
  ]);
  const places = launches.map((l) => [
    l.grid && l.block ? `${l.grid.join('×')} · ${l.block.join('×')}` : '',
    l.kernel ?? '',
    shortened(l.origins),
  ]);
  const sum = (of: (l: LaunchFigures) => number): string =>
    quantity(launches.reduce((total, l) => total + of(l), 0));
  const totals = ['sum', '', '', sumUs.toFixed(2), '', sum((l) => l.bytes), sum((l) => l.flops ?? 0), ''];
  const wide = table(
    [...FIGURES, ...PLACES],
    [...figures.map((row, i) => [...row, ...places[i]!]), [...totals, ...PLACES.map(() => '')]],
  );
  const fits = wide.split('\n').every((line) => line.length <= columns);
  const paragraphs = [
    `${name}, a training step of ${batchSize} on ${device.name}: ${device.description}`,
    `${us.toFixed(1)} µs as one program; each launch timed separately (median, µs):`,
  ];
  const notes =
    `roofline: ${quantity(ceilings.copy * 1e9)}B/s copied from and to memory, or what a launch of as many bytes reaches in a cache, ` +
    `${Object.entries(ceilings.products)
      .map(([p, rate]) => `${quantity(rate * 1e9)}FLOP/s in ${p}`)
      .join(', ')} ` +
    'products, of the same run. bytes: sources and results, each once. flops: by the definition of the op, else as ' +
    'the loops of the kernel say. asked for at: ∂ marks gradients of what was asked for there; ← who called the layer.';
  return [
    ...paragraphs.map((text) => wrapped(text, columns)),
    '',
    fits ? wide : narrow(table(FIGURES, [...figures, totals]), places, columns),
    '',
    wrapped(notes, columns),
  ].join('\n');
}

const FIGURES = ['kernel', '#', 'level', 'µs', 'share', 'bytes', 'flops', 'of roofline'] as const;
const PLACES = ['grid · block', 'kernel at', 'asked for at'] as const;

/** The table of figures, and under each launch where it is from. */
function narrow(figures: string, places: readonly (readonly string[])[], columns: number): string {
  return figures
    .split('\n')
    .flatMap((line, i) => {
      // Two lines of header come before the launches.
      const words = (places[i - 2] ?? []).map((text, k) => (text === '' ? '' : `${PLACES[k]} ${text}`));
      const text = words.filter((word) => word !== '').join(', ');
      return text === '' ? [line] : [line, wrapped(`    ${text}`, columns, 4)];
    })
    .join('\n');
}

/** Call sites that a row shows. */
const SHOWN = 2;

function shortened(origins: readonly string[]): string {
  const more = origins.length > SHOWN ? ` and ${origins.length - SHOWN} more` : '';
  return origins.slice(0, SHOWN).join(', ') + more;
}

const PREFIXES = ['', 'k', 'M', 'G', 'T'] as const;

/** 12345678 → 12.3 M */
function quantity(n: number): string {
  let at = 0;
  let value = n;
  while (value >= 1000 && at < PREFIXES.length - 1) {
    value /= 1000;
    at++;
  }
  return at === 0 ? String(Math.round(value)) : `${value.toPrecision(3)} ${PREFIXES[at]}`;
}
