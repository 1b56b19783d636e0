/** `heddle launch`: a program in several processes, which train together. */
import { existsSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { availableParallelism } from 'node:os';
import { extname, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ArgumentError } from '../core/errors.js';
import { DEFAULT_PORT } from '../distributed/environment.js';
import { countDevices } from '../runtime/registry.js';
import { RankGroup } from './rank-group.js';

export interface LaunchCommandOptions {
  /** Ranks on this host; without it one for each GPU. */
  readonly processes?: number;
  readonly nodes: number;
  readonly nodeRank?: number;
  /** The host and port of rank 0. */
  readonly address?: string;
  readonly restarts: number;
  readonly device?: string;
}

/**
 * Start a program once for each rank, wait for all of them, and start all of them again if one fails.
 * @param script the file of the program @param args its own arguments
 * @returns the exit code: that of the rank that failed, or 0
 * @throws ArgumentError if it cannot begin
 */
export async function launch(
  script: string,
  args: readonly string[],
  options: LaunchCommandOptions,
): Promise<number> {
  if (!existsSync(script) || !statSync(script).isFile())
    throw new ArgumentError(
      `There is no file ${resolve(script)}. heddle launch starts a program: heddle launch -n 2 train.js`,
    );
  return launchProgram([...process.execArgv, ...loaderFor(script), script, ...args], options);
}

/** @param words the arguments of Node in each rank @throws ArgumentError if it cannot begin */
export async function launchProgram(
  words: readonly string[],
  options: LaunchCommandOptions,
): Promise<number> {
  const nodeRank = nodeRankOf(options);
  const device = options.device ?? process.env.HEDDLE_DEVICE ?? '';
  const gpus = countGpus(device);
  const processes = options.processes ?? Math.max(1, gpus);
  const variables = deviceVariables(device, gpus, processes);
  for (let restart = 0; ; restart++) {
    const { host, port } = await addressOf(options, nodeRank);
    const group = new RankGroup(
      words,
      Array.from({ length: processes }, (_, localRank) => ({
        rank: nodeRank * processes + localRank,
        env: {
          RANK: String(nodeRank * processes + localRank),
          WORLD_SIZE: String(options.nodes * processes),
          LOCAL_RANK: String(localRank),
          LOCAL_WORLD_SIZE: String(processes),
          MASTER_ADDR: host,
          MASTER_PORT: String(port),
          HEDDLE_RESTART: String(restart),
          ...variables(localRank),
        },
      })),
    );
    const { code, failure } = await group.run();
    if (failure === undefined) return code;
    const isAgain = restart < options.restarts;
    const next = isAgain ? ` All ranks start again (restart ${restart + 1} of ${options.restarts}).` : '';
    process.stderr.write(`heddle: ${failure}${next}\n`);
    if (!isAgain) return code;
  }
}

function nodeRankOf({ nodes, nodeRank, address }: LaunchCommandOptions): number {
  if (nodes > 1 && (nodeRank === undefined || address === undefined))
    throw new ArgumentError(
      `--nodes ${nodes} needs --node-rank, which is different on each machine, and --address <host>:<port>, which is the same: ` +
        'the machine with node rank 0, and a port that is free there.',
    );
  if (nodeRank !== undefined && nodeRank >= nodes)
    throw new ArgumentError(
      `--node-rank is ${nodeRank}, but --nodes is ${nodes}: machines are numbered from 0 to ${nodes - 1}.`,
    );
  return nodeRank ?? 0;
}

const countGpus = (device: string): number => {
  if (device !== '' && !/^cuda(:\d+)?$/.test(device)) return 0;
  return countDevices('cuda');
};

/** What each rank computes on: a GPU of its own, or its part of the processor. @throws ArgumentError if that does not work out */
function deviceVariables(
  device: string,
  gpus: number,
  processes: number,
): (localRank: number) => Readonly<Record<string, string>> {
  if (device.startsWith('cuda:') && processes > 1)
    throw new ArgumentError(
      `${device} is one GPU, but there are ${processes} ranks on this host. Leave its number out.`,
    );
  if (device === 'cuda' && gpus === 0)
    throw new ArgumentError("The device is 'cuda', but there is no GPU here. npx heddle doctor says why.");
  if (device === '' || device === 'cuda') {
    if (gpus > 0 && processes > gpus)
      throw new ArgumentError(
        `There are ${processes} ranks on this host, but ${gpus} GPU${gpus === 1 ? '' : 's'}: each rank needs one. Ask for fewer, or ` +
          'for --device cpu.',
      );
    if (gpus > 0) return (localRank) => ({ HEDDLE_DEVICE: `cuda:${localRank}` });
  }
  const threads =
    process.env.HEDDLE_THREADS || String(Math.max(1, Math.floor(availableParallelism() / processes)));
  return () => ({ ...(device !== '' && { HEDDLE_DEVICE: device }), HEDDLE_THREADS: threads });
}

/** Where rank 0 listens. @throws ArgumentError if it is malformed, or the port is taken */
async function addressOf(
  { address, nodes }: LaunchCommandOptions,
  nodeRank: number,
): Promise<{ readonly host: string; readonly port: number }> {
  if (address === undefined) return { host: '127.0.0.1', port: (await freePort('127.0.0.1', 0))! };
  const [, bracketed, plain, digits] = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?$/.exec(address) ?? [];
  const host = bracketed ?? plain;
  const port = Number(digits ?? DEFAULT_PORT);
  if (host === undefined || port < 1 || port > 65_535)
    throw new ArgumentError(
      `--address is '${address}', must be <host> or <host>:<port>, with a port from 1 to 65535.`,
    );
  if (nodeRank === 0 && (await freePort(undefined, port)) === undefined)
    throw new ArgumentError(
      `Port ${port} is taken by another process on this host. Choose another one${nodes > 1 ? ', the same on all machines' : ''}: ` +
        `--address ${host}:${port + 1}`,
    );
  return { host, port };
}

/** A port that can be listened on, or undefined. @param port 0: any */
const freePort = (host: string | undefined, port: number): Promise<number | undefined> =>
  new Promise((give) => {
    const server = createServer();
    server.once('error', () => give(undefined));
    server.listen({ host, port }, () => {
      const { port: found } = server.address() as { readonly port: number };
      server.close(() => give(found));
    });
  });

/** What Node needs to run the program, if it is TypeScript. @throws ArgumentError if it cannot */
function loaderFor(script: string): readonly string[] {
  if (!['.ts', '.mts', '.cts', '.tsx'].includes(extname(script))) return [];
  const hasLoader = /(^|\W)tsx\b|--(experimental-)?(strip|transform)-types/.test(
    [...process.execArgv, process.env.NODE_OPTIONS].join(' '),
  );
  if (hasLoader || ('typescript' in process.features && process.features.typescript)) return [];
  try {
    const tsx = createRequire(resolve(script)).resolve('tsx');
    return ['--import', pathToFileURL(tsx).href];
  } catch {
    throw new ArgumentError(
      `${script} is TypeScript, which Node ${process.versions.node} does not run by itself. Install tsx (npm install --save-dev tsx), ` +
        'or use Node 22.18 or later.',
    );
  }
}
