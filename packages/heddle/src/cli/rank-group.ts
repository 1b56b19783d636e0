/** The processes of `heddle launch` on this host: what they print, how they are interrupted, and what ends all of them. */
import { type ChildProcess, spawn } from 'node:child_process';
import { constants } from 'node:os';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { EXIT_LOST, lossText, type RankLoss } from '../distributed/control/ending.js';

/** A rank to start. */
export interface RankOrder {
  readonly rank: number;
  /** What its environment has besides that of this process. */
  readonly env: Readonly<Record<string, string>>;
}

export interface GroupEnd {
  readonly code: number;
  /** Which rank has failed and how, if one has. */
  readonly failure: string | undefined;
}

interface RunningProcess {
  readonly rank: number;
  readonly child: ChildProcess;
}

interface ProcessEnd {
  readonly rank: number;
  readonly pid: number | undefined;
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** Ranks that know of a failure end by themselves in this time, and tell other hosts the right reason. */
const NOTICE_MS = 1000;
/** Then they are asked to end, and after this time they are killed. */
const TERM_MS = 4000;
/** What is printed arrives at the latest so long after the end. */
const OUTPUT_MS = 1000;
/** One Ctrl-C may arrive twice: from the terminal, and passed on by npm. */
const SAME_PRESS_MS = 300;

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** How another starter numbers this process: its ranks have numbers of their own. */
const STARTERS = /^(OMPI_COMM_WORLD_|PMI_|PMIX_|MPI_LOCAL|SLURM_(PROCID|LOCALID)$|TORCHELASTIC_)/;

/** The file descriptor on which ranks tell of ranks that are gone. */
const REPORTS = 3;

export class RankGroup {
  readonly #words: readonly string[];
  readonly #orders: readonly RankOrder[];
  #running: RunningProcess[] = [];
  readonly #losses: RankLoss[] = [];
  /** The rank that has failed first. */
  #failed: ProcessEnd | undefined;
  /** Ranks that have not ended by themselves are being ended: how they end says nothing. */
  #isEnding = false;
  #interrupt: { readonly signal: NodeJS.Signals; readonly at: number } | undefined;
  readonly #timers: NodeJS.Timeout[] = [];

  /** @param words the arguments of Node */
  constructor(words: readonly string[], orders: readonly RankOrder[]) {
    this.#words = words;
    this.#orders = orders;
  }

  /** Start all ranks. @returns when all have ended */
  async run(): Promise<GroupEnd> {
    for (const signal of SIGNALS) process.on(signal, this.#onSignal);
    process.on('exit', this.#killAll);
    const ends = await Promise.all(this.#orders.map((order) => this.#start(order)));
    for (const timer of this.#timers) clearTimeout(timer);
    for (const signal of SIGNALS) process.off(signal, this.#onSignal);
    process.off('exit', this.#killAll);
    const failed = this.#failed;
    const first = ends[0]!;
    if (this.#interrupt) {
      const { signal } = this.#interrupt;
      return {
        code: this.#isOrderly(first) ? codeOf(first) : 128 + constants.signals[signal],
        failure: undefined,
      };
    }
    if (!failed) return { code: codeOf(first), failure: undefined };
    return { code: codeOf(failed), failure: this.#failureText(failed) };
  }

  #start({ rank, env }: RankOrder): Promise<ProcessEnd> {
    const inherited = Object.entries(process.env).filter(([name]) => !STARTERS.test(name));
    const output = rank === 0 ? 'inherit' : 'pipe';
    const child = spawn(process.execPath, this.#words, {
      stdio: ['ignore', output, output, 'pipe'],
      env: { ...Object.fromEntries(inherited), ...env, HEDDLE_LAUNCHER: String(REPORTS) },
      // Its own process group: Ctrl-C in the terminal reaches this process alone, which passes it on once.
      detached: true,
    });
    this.#running.push({ rank, child });
    if (child.stdout) prefix(child.stdout, process.stdout, rank);
    if (child.stderr) prefix(child.stderr, process.stderr, rank);
    const reports = child.stdio[REPORTS] as Readable;
    reports.on('error', () => {});
    createInterface({ input: reports }).on('line', (line) => this.#losses.push(JSON.parse(line) as RankLoss));
    return new Promise((give) => {
      let end: ProcessEnd = { rank, pid: child.pid, code: 1, signal: null };
      child.on('exit', (code, signal) => {
        end = { rank, pid: child.pid, code, signal };
        this.#running = this.#running.filter((process) => process.child !== child);
        this.#notice(end);
        // A process that the rank has started may keep its output open.
        setTimeout(() => give(end), OUTPUT_MS).unref();
      });
      child.on('error', () => give(end));
      // All that it has printed is there.
      child.on('close', () => give(end));
    });
  }

  #notice(end: ProcessEnd): void {
    if (this.#isOrderly(end)) return;
    if (this.#isEnding) return;
    if (!this.#failed) {
      this.#failed = end;
      this.#timers.push(setTimeout(this.#endAll, NOTICE_MS));
    } else if (isFollower(this.#failed)) this.#failed = end;
  }

  readonly #endAll = (): void => {
    this.#isEnding = true;
    this.#signalAll('SIGTERM');
    // Who has not noticed by now that a rank is gone is stopped itself.
    const patience = isFollower(this.#failed!) ? NOTICE_MS : TERM_MS;
    this.#timers.push(setTimeout(this.#killAll, patience));
  };

  #isOrderly({ code, signal }: ProcessEnd): boolean {
    if (code === 0) return true;
    const passed = this.#interrupt?.signal;
    return passed !== undefined && (signal === passed || code === 128 + constants.signals[passed]);
  }

  #failureText(failed: ProcessEnd): string {
    const { rank, pid, code, signal } = failed;
    const loss = this.#losses[0];
    if (isFollower(failed) && loss) return lossText(loss);
    const others = this.#orders.length > 1 ? ' The other ranks have been ended.' : '';
    const known = this.#losses.find(({ member }) => member?.rank === rank)?.reason;
    const how = signal
      ? `was killed by ${signal}`
      : `ended with exit code ${code}${known?.startsWith('it failed with') ? `: ${known}` : ''}`;
    return `rank ${rank} (pid ${pid}) ${how}.${others}`;
  }

  readonly #onSignal = (signal: NodeJS.Signals): void => {
    const now = performance.now();
    if (!this.#interrupt) {
      this.#interrupt = { signal, at: now };
      this.#signalAll(signal);
    } else if (signal !== 'SIGHUP' && now - this.#interrupt.at > SAME_PRESS_MS) this.#killAll();
  };

  #signalAll(signal: NodeJS.Signals): void {
    for (const { child } of this.#running) child.kill(signal);
  }

  /** With the processes that they have started. */
  readonly #killAll = (): void => {
    for (const { child } of this.#running) {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
      } catch {
        child.kill('SIGKILL');
      }
    }
  };
}

/** Whether a rank has ended because another one is gone. */
const isFollower = ({ code }: ProcessEnd): boolean => code === EXIT_LOST;

/** As a shell has it: that of a signal is 128 and its number. */
const codeOf = ({ code, signal }: ProcessEnd): number =>
  signal ? 128 + constants.signals[signal] : (code ?? 1);

/** Passes lines on with the number of their rank before them. */
function prefix(from: Readable, to: NodeJS.WriteStream, rank: number): void {
  createInterface({ input: from, crlfDelay: Number.POSITIVE_INFINITY }).on('line', (line) =>
    to.write(`[rank ${rank}] ${line}\n`),
  );
}
