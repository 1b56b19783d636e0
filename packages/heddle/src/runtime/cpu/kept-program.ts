/**
 * Programs on disk. From the start of a process to its first training step, half of the time goes into the passes and
 * the renderer, which run before V8 has optimized them. A program that any process has rendered before is read instead.
 */
import { BUILD_ID } from '../../core/build-id.js';
import { debug } from '../../core/log.js';
import { kernelHash, scalarText } from '../../kernel/ir/fingerprint.js';
import type { KernelIr } from '../../kernel/ir/ir.js';
import type { KernelLaunch } from '../device.js';
import { cacheKey, cacheOf } from '../disk-cache.js';
import type { ProgramModule, RenderOptions } from './render.js';

/** What is rendered faster is not worth a file. */
const WORTH_KEEPING_MS = 20;
const MOST_FILES = 256;

/**
 * The program for these launches: read from disk, else rendered, and written if that took long.
 * One with messages is always rendered: they name places in the source.
 */
export function keptProgram(
  launches: readonly KernelLaunch[],
  options: RenderOptions,
  render: (options: RenderOptions) => ProgramModule,
): ProgramModule {
  const cache = cacheOf('cpu', MOST_FILES);
  if (!cache || BUILD_ID === undefined) return render(options);
  const key = cacheKey(BUILD_ID, JSON.stringify(options), ...hashes(launches));
  const found = cache.get(key);
  if (found) {
    debug(1, () => `cpu: program read from ${cache.folder}`);
    return { ...unpack(found), messages: [], text: () => render(options).text() };
  }
  const started = performance.now();
  const program = render(options);
  const isWorth = cache.keepsAll || performance.now() - started >= WORTH_KEEPING_MS;
  if (program.messages.length === 0 && isWorth) cache.put(key, pack(program));
  return program;
}

/** Everything that rendering looks at: a hash of each kernel, and a text for the launches. */
function hashes(launches: readonly KernelLaunch[]): string[] {
  const kernels = new Map<KernelIr, number>();
  for (const { kernel } of launches) if (!kernels.has(kernel)) kernels.set(kernel, kernels.size);
  const calls = launches.map(({ kernel, grid, block, sharedBytes, args, needs }) => [
    kernels.get(kernel),
    grid,
    block,
    sharedBytes,
    needs,
    args.map((a) => ('slot' in a ? [a.slot, a.offset] : [scalarText(a.value)])),
  ]);
  return [...[...kernels.keys()].map(kernelHash), JSON.stringify(calls)];
}

type Kept = Pick<ProgramModule, 'bytes' | 'scratchBytes' | 'sections'>;

/** As i32: scratch bytes, how many sections, the chunks of each; then the module. */
function pack({ bytes, scratchBytes, sections }: Kept): Uint8Array {
  const head = Int32Array.of(scratchBytes, sections.length, ...sections);
  const packed = new Uint8Array(head.byteLength + bytes.length);
  packed.set(new Uint8Array(head.buffer));
  packed.set(bytes, head.byteLength);
  return packed;
}

function unpack(packed: Uint8Array<ArrayBuffer>): Kept {
  const [scratchBytes, count] = new Int32Array(packed.buffer, 0, 2);
  const sections = [...new Int32Array(packed.buffer, 8, count!)];
  return { bytes: packed.subarray(8 + 4 * count!), scratchBytes: scratchBytes!, sections };
}
