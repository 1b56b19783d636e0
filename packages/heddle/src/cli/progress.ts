/** What `heddle train` shows while it runs: a bar on a terminal, plain lines elsewhere. */
import { SingleBar } from 'cli-progress';
import type { Callback, EpochReport, StepReport } from '../train/index.js';
import { clock, percent, whole } from './format.js';

export interface ProgressOptions {
  /** What the examples are: images, points. */
  readonly noun: string;
  /** Lines go here. */
  readonly out: (line: string) => void;
  /** A terminal for the bar; without it there are lines in between. */
  readonly terminal?: NodeJS.WriteStream | undefined;
  /** Seconds between those lines. Default: 10. */
  readonly interval?: number;
}

/** Loss, speed and time left after every step or now and then, and a line with the accuracy after every epoch. */
export function progress({
  noun,
  out,
  terminal,
  interval = 10,
}: ProgressOptions): Callback & { /** Take the bar away, however the training ended. */ stop(): void } {
  let plan = { epochs: 0, steps: 0 };
  let started = 0;
  let lastLine = 0;
  let bar: SingleBar | undefined;
  const describe = (report: StepReport): { loss: string; speed: string; left: string } => {
    const done = report.epoch * plan.steps + report.step;
    const remaining = plan.epochs * plan.steps - done;
    return {
      loss: report.loss === undefined ? '–' : report.loss.toFixed(4),
      speed: `${whole(report.examples / report.seconds)} ${noun}/s`,
      left: clock(((performance.now() - started) / 1000 / done) * remaining),
    };
  };
  const stop = (): void => {
    bar?.stop();
    bar = undefined;
  };
  return {
    stop,
    onStart: ({ epochs, steps }) => {
      plan = { epochs, steps };
      started = performance.now();
      lastLine = started;
    },
    onStep: (report) => {
      if (terminal) {
        bar ??= startBar(terminal, report, plan);
        bar.update(report.step, describe(report));
      } else if (performance.now() - lastLine > 1000 * interval) {
        lastLine = performance.now();
        const { loss, speed, left } = describe(report);
        const step = `${whole(report.step)}/${whole(report.steps)}`;
        out(`  epoch ${report.epoch + 1}/${plan.epochs}, step ${step}: loss ${loss}, ${speed}, ${left} left`);
      }
      return undefined;
    },
    onEpochEnd: (report) => {
      stop();
      out(epochLine(report, noun));
      return undefined;
    },
    onEnd: stop,
  };
}

/** epoch 1/5   loss 0.2410   test loss 0.0812   test accuracy 97.46 %   5,012 images/s   12.0 s */
function epochLine(
  { epoch, epochs, loss, validation, seconds, examplesPerSecond }: EpochReport,
  noun: string,
): string {
  const metrics = Object.entries(validation?.metrics ?? {}).map(
    ([name, value]) => `test ${name} ${percent(value)}`,
  );
  return [
    `epoch ${epoch + 1}/${epochs}`,
    `loss ${loss.toFixed(4)}`,
    ...(validation ? [`test loss ${validation.loss.toFixed(4)}`] : []),
    ...metrics,
    `${whole(examplesPerSecond)} ${noun}/s`,
    `${seconds.toFixed(1)} s`,
  ].join('   ');
}

function startBar(
  stream: NodeJS.WriteStream,
  report: StepReport,
  { epochs }: { readonly epochs: number },
): SingleBar {
  const bar = new SingleBar({
    format: `epoch ${report.epoch + 1}/${epochs} {bar} {percentage} %  loss {loss}  {speed}  {left} left`,
    barCompleteChar: '█',
    barIncompleteChar: '░',
    barsize: 24,
    fps: 10,
    hideCursor: true,
    clearOnComplete: true,
    gracefulExit: false,
    stream,
  });
  bar.start(report.steps, 0, { loss: '–', speed: '–', left: '–' });
  return bar;
}
