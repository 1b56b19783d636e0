/** A service in a process of its own, and the CPU time that it takes. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { DeviceError } from 'heddle';
import { MAIN } from 'heddle/internal/cli/main-path.js';
import { freePort } from './processes.js';

/** A service that runs. */
export interface ServiceProcess {
  readonly port: number;
  readonly grpcPort: number;
  /** CPU time up to now, in µs: of the process that reads and answers, and of those that compute. NaN where there is no /proc. */
  readonly cpu: () => { readonly front: number; readonly workers: number };
  readonly close: () => Promise<void>;
}

/** Serve a folder of models on a device. @throws DeviceError if it does not begin to serve */
export async function startService(folder: string, device: string, threads: number): Promise<ServiceProcess> {
  const [port, grpcPort] = [await freePort(), await freePort()];
  const ports = ['--port', String(port), '--grpc-port', String(grpcPort)];
  const args = [MAIN, 'serve', folder, '--device', device, '--log-level', 'error', ...ports];
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, HEDDLE_THREADS: String(threads) },
  });
  const close = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGTERM');
    await once(child, 'exit');
  };
  for (const until = performance.now() + 120_000; ; await setTimeout(50)) {
    const isReady = await fetch(`http://127.0.0.1:${port}/v2/health/ready`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isReady) break;
    if (child.exitCode === null && performance.now() < until) continue;
    await close();
    throw new DeviceError(`heddle serve did not begin to serve (exit code ${child.exitCode}).`);
  }
  const pid = child.pid!;
  const cpu = (): { front: number; workers: number } => ({
    front: cpuMicroseconds(pid),
    workers: childrenOf(pid).reduce((sum, own) => sum + cpuMicroseconds(own), 0),
  });
  return { port, grpcPort, cpu, close };
}

/** Of the clock that Linux counts CPU time by, in µs. */
const TICK = 10_000;

/** CPU time of a process in µs; NaN if there is no such process, or no /proc. */
export function cpuMicroseconds(pid: number): number {
  const file = `/proc/${pid}/stat`;
  if (!existsSync(file)) return Number.NaN;
  // Behind the name, which may have spaces: the fields from the third on.
  const fields = readFileSync(file, 'utf8').split(') ').at(-1)!.split(' ');
  return (Number(fields[11]) + Number(fields[12])) * TICK;
}

function childrenOf(pid: number): readonly number[] {
  const file = `/proc/${pid}/task/${pid}/children`;
  return existsSync(file) ? readFileSync(file, 'utf8').trim().split(' ').filter(Boolean).map(Number) : [];
}
