/** The process that the library runs in: its environment, output and signals. */
import { hostname } from 'node:os';

export const environment = (): Readonly<Record<string, string | undefined>> => process.env;

/** A line of output. */
export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** A line for people, apart from the output. */
export function warn(line: string): void {
  process.stderr.write(`${line}\n`);
}

export const workingFolder = (): string => process.cwd();

export const processId: number = process.pid;

export const hostName = (): string => hostname();

export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

export type Signal = NodeJS.Signals;

/** Those of the signals that nothing listens to. */
export const unheardSignals = (signals: readonly string[]): readonly string[] =>
  signals.filter((signal) => process.listenerCount(signal) === 0);

export function listen(signals: readonly string[], listener: (signal: Signal) => void): void {
  for (const signal of signals) process.on(signal, listener);
}

export function unlisten(signals: readonly string[], listener: (signal: Signal) => void): void {
  for (const signal of signals) process.off(signal, listener);
}

/** Do this once when the process ends, however it does. It cannot wait for anything. */
export function atExit(work: () => void): void {
  if (!process.listeners('exit').includes(work)) process.once('exit', work);
}

/** End the process now. */
export function exit(code: number): void {
  process.exit(code);
}

/** What the process is to end with. */
export function setExitCode(code: number): void {
  process.exitCode = code;
}
