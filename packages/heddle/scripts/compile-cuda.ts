/**
 * Compile CUDA C++ without a GPU, with nvcc where the CUDA toolkit is installed, else with NVRTC where its wheel is:
 * the proof that a kernel's text is legal, for each of `ARCHITECTURES`.
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { NVRTC_FLAGS } from '../src/render/cuda/render.js';
import { findNvrtc, NVRTC_HINT, Nvrtc, oneUnit } from '../src/runtime/cuda/compile/nvrtc.js';

/**
 * The generations that Heddle writes CUDA text for: Ampere, and from Hopper on, where kernels overlap. Later generations
 * get Hopper's text.
 */
export const ARCHITECTURES = ['sm_80', 'sm_90a'] as const;
export type Architecture = (typeof ARCHITECTURES)[number];

/** Where nvcc is, if it is anywhere: on the PATH or in /usr/local/cuda*. */
export function findNvcc(): string | undefined {
  const toolkits = existsSync('/usr/local')
    ? readdirSync('/usr/local')
        .filter((name) => name.startsWith('cuda'))
        .map((name) => `/usr/local/${name}/bin`)
    : [];
  const folders = [...(process.env.PATH ?? '').split(delimiter), ...toolkits];
  return folders.map((folder) => join(folder, 'nvcc')).find((path) => existsSync(path));
}

/** What nvcc says of some sources. */
export type CompileResult =
  /** The log holds errors, or warnings. */
  | { readonly status: 'compiled' | 'failed'; readonly log: string }
  /** There is no compiler here. */
  | { readonly status: 'skipped'; readonly reason: string };

/**
 * Compile complete sources (each with its own prelude) for one architecture, as one translation unit. The names of their
 * kernels must differ.
 * @param optimized as they run: the compiler then says where it makes products of warpgroups wait for each other
 */
export async function compileCheck(
  sources: readonly string[],
  arch: Architecture,
  optimized = false,
): Promise<CompileResult> {
  const unit = oneUnit(sources);
  const nvcc = findNvcc();
  if (nvcc) return byNvcc(nvcc, unit, arch, optimized ? [] : HASTY);
  const nvrtc = findNvrtc();
  if (!nvrtc)
    return { status: 'skipped', reason: `no nvcc on the PATH or in /usr/local/cuda*. ${NVRTC_HINT}` };
  const result = new Nvrtc(nvrtc.path).compile(
    { name: 'kernels', text: unit },
    { kind: 'cubin', name: arch },
  );
  return result instanceof Uint8Array
    ? { status: 'compiled', log: '' }
    : { status: 'failed', log: result.log };
}

/** Whether text is legal does not depend on how well it is optimized, which would take twice the time. */
const HASTY = ['-Xcicc', '-O1', '-Xptxas', '-O0'];

async function byNvcc(
  nvcc: string,
  unit: string,
  arch: Architecture,
  hasty: readonly string[],
): Promise<CompileResult> {
  const folder = mkdtempSync(join(tmpdir(), 'heddle-cuda-'));
  try {
    const file = join(folder, 'kernels.cu');
    writeFileSync(file, unit);
    const flags = NVRTC_FLAGS.map((flag) => flag.replace(/^-/, ''));
    const args = ['-cubin', `-arch=${arch}`, ...flags, ...hasty, '-o', join(folder, 'kernels.cubin'), file];
    const { stdout, stderr } = await promisify(execFile)(nvcc, args);
    return { status: 'compiled', log: `${stdout}${stderr}` };
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    return { status: 'failed', log: `${stdout}${stderr}` || String(error) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
