/** Processes that a benchmark starts. */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { constants } from 'node:os';
import { join } from 'node:path';

/** A port of this machine that nothing listens on. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { readonly port: number };
  server.close();
  await once(server, 'close');
  return port;
}

/**
 * The environment of a process whose caches are in `folder`: Heddle's, Node's for compiled modules, and the CUDA driver's. From CUDA 12.9
 * on, NVRTC uses the driver's cache, and finds there what it has compiled for other processes.
 */
export const withCachesIn = (folder: string): NodeJS.ProcessEnv => ({
  ...process.env,
  HEDDLE_CACHE: join(folder, 'heddle'),
  CUDA_CACHE_PATH: join(folder, 'cuda'),
  NODE_COMPILE_CACHE: join(folder, 'node'),
});

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
const running = new Set<ChildProcess>();

/** Ends this process with those that it has started, which would go on measuring for nobody. */
function endAll(signal: NodeJS.Signals): void {
  for (const child of running) child.kill('SIGKILL');
  process.exit(128 + constants.signals[signal]);
}

/** A signal that ends this process ends `child` as well. */
function endWith(child: ChildProcess): void {
  if (running.size === 0) for (const signal of SIGNALS) process.on(signal, endAll);
  running.add(child);
  child.once('close', () => {
    running.delete(child);
    if (running.size === 0) for (const signal of SIGNALS) process.off(signal, endAll);
  });
}

/**
 * What a process prints, when it has ended. It ends with this one.
 * @param hear is given what it says on stderr meanwhile
 * @throws Error with what it says on stderr if it fails
 */
export async function outputOf(child: ChildProcess, hear?: (text: string) => void): Promise<string> {
  endWith(child);
  let [output, errors] = ['', ''];
  child.stdout!.on('data', (part) => {
    output += String(part);
  });
  child.stderr!.on('data', (part) => {
    errors += String(part);
    hear?.(String(part));
  });
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`a process ended with ${code}: ${errors.trim()}`);
  return output;
}
