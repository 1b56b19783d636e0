/** `heddle lr`: a learning-rate schedule before it is used. */
import { ArgumentError } from '../core/errors.js';
import { programNamed } from '../train/index.js';
import { scheduleOf } from '../train/programs.js';
import type { Recipe } from '../train/recipes.js';
import { type Curve, textCurves } from './curves.js';
import { counted } from './format.js';
import { recipeFor } from './recipe-options.js';
import { svgFile } from './svg-file.js';
import { widthOf } from './terminal.js';
import { EXAMPLES } from './training-steps.js';

export interface LrCommandOptions {
  readonly schedule?: string;
  readonly recipe?: string;
  readonly epochs?: number;
  readonly batchSize?: number;
  readonly stepsPerEpoch?: number;
  readonly lr?: number;
  readonly svg?: string;
}

/** Points of a drawn curve. */
const POINTS = 500;

/** Draw the learning rate of a program's recipe, or of a schedule alone, over a training. */
export async function drawSchedule(name: string | undefined, options: LrCommandOptions): Promise<void> {
  const drawing = await svgFile(options.svg);
  const { recipe, stepsPerEpoch } = planOf(name, options);
  const { epochs, lr } = recipe;
  const schedule = scheduleOf(recipe);
  const span = { steps: epochs * stepsPerEpoch, stepsPerEpoch };
  const rateOf = (step: number): number => lr * (schedule?.factor(step, span) ?? 1);
  const rates = Array.from({ length: span.steps }, (_, step) => rateOf(step));
  const points = Array.from({ length: POINTS + 1 }, (_, i) => {
    const share = i / POINTS;
    return [epochs * share, rates[Math.min(span.steps - 1, Math.floor(share * span.steps))]!] as const;
  });
  const curve: Curve = { name: `${recipe.schedule}, lr ${lr}`, points };
  const title = `learning rate${name === undefined ? '' : ` of ${name}`} by epoch`;
  const say = (line: string): void => void process.stdout.write(`${line}\n`);
  say(`${title}\n${textCurves([curve], Math.min(100, widthOf(process.stdout)))}`);
  const highest = Math.max(...rates);
  say(`\nepochs   ${epochs} of ${counted(stepsPerEpoch, 'step')}`);
  say(`first    ${shortly(rates[0]!)}`);
  say(`highest  ${shortly(highest)} in step ${rates.indexOf(highest) + 1}`);
  say(`last     ${shortly(rates.at(-1)!)}`);
  if (schedule?.monitor !== undefined)
    say(
      `\nThe rate depends on the ${schedule.monitor} of each epoch: drawn is a training in which it always improves.`,
    );
  await drawing?.((look) => look.lineChart({ title, x: 'epoch', y: 'learning rate', curves: [curve] }));
}

const shortly = (rate: number): string => String(Number(rate.toPrecision(4)));

function planOf(
  name: string | undefined,
  options: LrCommandOptions,
): { readonly recipe: Pick<Recipe, 'schedule' | 'epochs' | 'lr'>; readonly stepsPerEpoch: number } {
  if (name !== undefined) {
    const program = programNamed(name);
    const recipe = recipeFor(program, options);
    const steps = Math.ceil(EXAMPLES[program.data].length / recipe.batchSize);
    return { recipe, stepsPerEpoch: options.stepsPerEpoch ?? steps };
  }
  const { schedule, epochs = 10, lr = 1, stepsPerEpoch = 100 } = options;
  if (schedule === undefined)
    throw new ArgumentError('there is nothing to draw: name a program, or give a --schedule.');
  return { recipe: { schedule, epochs, lr }, stepsPerEpoch };
}
