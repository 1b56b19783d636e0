/** What `heddle train` shows while it runs: a bar on a terminal, plain lines elsewhere. */
import type { Callback, EpochReport, StepReport } from '../train/index.js';
import { clock, percent, whole } from './format.js';
import { styled } from './terminal.js';

export interface ProgressOptions {
  /** What the examples are: images, points. */
  readonly noun: string;
  /** Lines go here. */
  readonly out: (line: string) => void;
  /** Columns of what the lines go to. Default: as many as there need be. */
  readonly columns?: () => number;
  /** Draws the bar on a terminal; without it there are lines in between. */
  readonly status?: ((text: (columns: number) => string) => void) | undefined;
  /** Seconds between those lines. Default: 10. */
  readonly interval?: number;
}

/** Loss, speed and time left as the training comes along, and a line with the accuracy after every epoch. */
export function progress({
  noun,
  out,
  columns = () => Number.POSITIVE_INFINITY,
  status,
  interval = 10,
}: ProgressOptions): Callback {
  let plan = { epochs: 0, steps: 0 };
  let started = 0;
  /** Steps that were done before. */
  let before = 0;
  let lastLine = 0;
  const describe = (report: StepReport): { loss: string; speed: string; left: string } => {
    const done = report.epoch * plan.steps + report.step;
    const remaining = plan.epochs * plan.steps - done;
    return {
      loss: report.loss === undefined ? '–' : report.loss.toFixed(4),
      speed: `${whole(report.examples / report.seconds)} ${noun}/s`,
      left: clock(((performance.now() - started) / 1000 / (done - before)) * remaining),
    };
  };
  return {
    onStart: ({ epochs, steps, epoch, step }) => {
      plan = { epochs, steps };
      before = epoch * steps + step;
      started = performance.now();
      lastLine = started;
    },
    onProgress: (report) => {
      const epoch = `epoch ${report.epoch + 1}/${plan.epochs}`;
      if (status) {
        status((width) => {
          const { loss, speed, left } = describe(report);
          const share = report.step / report.steps;
          const figures = `${Math.floor(100 * share)} %  loss ${loss}  ${speed}  ${left} left`;
          return barLine(epoch, share, figures, width);
        });
      } else if (performance.now() - lastLine > 1000 * interval) {
        lastLine = performance.now();
        const { loss, speed, left } = describe(report);
        const step = `${whole(report.step)}/${whole(report.steps)}`;
        out(`  ${epoch}, step ${step}: loss ${loss}, ${speed}, ${left} left`);
      }
      return undefined;
    },
    onEpochEnd: (report) => {
      out(epochLine(report, noun, columns()));
      return undefined;
    },
  };
}

const BAR = 24;

/** epoch 1/5 ██████░░░░░░ 52 %  loss 0.2410  5,012 images/s  0:12 left. The bar gives way on a narrow terminal. */
function barLine(epoch: string, share: number, figures: string, width: number): string {
  const cells = Math.min(BAR, width - epoch.length - figures.length - 2);
  if (cells < 4) return `${epoch} ${figures}`.slice(0, Math.max(0, width));
  const done = Math.round(share * cells);
  return `${epoch} ${styled('█'.repeat(done), 'cyan', process.stderr)}${'░'.repeat(cells - done)} ${figures}`;
}

/** epoch 1/5   loss 0.2410   test loss 0.0812   test accuracy 97.46 %   12.0 s   5,012 images/s, as far as it fits */
function epochLine(
  { epoch, epochs, loss, validation, seconds, examplesPerSecond }: EpochReport,
  noun: string,
  columns: number,
): string {
  const metrics = Object.entries(validation?.metrics ?? {}).map(
    ([name, value]) => `test ${name} ${percent(value)}`,
  );
  const parts = [
    `epoch ${epoch + 1}/${epochs}`,
    `loss ${loss.toFixed(4)}`,
    ...(validation ? [`test loss ${validation.loss.toFixed(4)}`] : []),
    ...metrics,
    `${seconds.toFixed(1)} s`,
    `${whole(examplesPerSecond)} ${noun}/s`,
  ];
  let line = parts[0]!;
  for (const part of parts.slice(1)) {
    const longer = `${line}   ${part}`;
    if (longer.length > columns) break;
    line = longer;
  }
  return line;
}
