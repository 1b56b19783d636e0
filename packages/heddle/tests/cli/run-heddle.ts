/** The command in a process of its own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('../../bundle/main.js', import.meta.url));

export interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** Is told, with every piece of output, all that there is. */
export type Watch = (child: ChildProcess, out: string) => void;

/** @param cwd where it runs */
export async function runHeddle(
  cwd: string,
  args: readonly string[],
  watch?: Watch,
  nodeOptions: readonly string[] = [],
): Promise<Ended> {
  const { HEDDLE_DEVICE: _, HEDDLE_DEBUG: __, FORCE_COLOR: ___, ...env } = process.env;
  const child = spawn(process.execPath, [...nodeOptions, MAIN, ...args], { cwd, env });
  let out = '';
  let err = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
    watch?.(child, out);
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text;
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, out, err };
}
