/** `heddle doctor`: what this machine offers, what is missing and how to get it. */
import { availableParallelism, cpus, freemem, totalmem } from 'node:os';
import { type FlagName, flagError, unknownFlags } from '../core/env.js';
import { FLAG_DOCS } from '../core/env-docs.js';
import { packageVersion } from '../core/platform/node/version.js';
import { findImages, IMAGE_SETS, type ImageSetName } from '../data/index.js';
import { findMpi } from '../distributed/mpi/find.js';
import { MpiLibrary } from '../distributed/mpi/library.js';
import { tuningMemory } from '../engine/tuner.js';
import { FunctionBuilder, ModuleBuilder } from '../render/wasm/encode.js';
import { prepareEngine } from '../runtime/cpu/engine.js';
import { Memory, validate } from '../runtime/cpu/webassembly.js';
import { NVRTC_HINT } from '../runtime/cuda/compile/nvrtc.js';
import { type CudaExamination, examineCuda, type GpuLinks } from '../runtime/cuda/examine.js';
import { listDevices } from '../runtime/registry.js';
import { counted, mebibytes } from './format.js';
import { styled, widthOf, wrapped } from './terminal.js';

/** One thing looked at. Without `ok` it is neither good nor bad. */
export interface Finding {
  readonly name: string;
  readonly ok?: boolean;
  readonly text: string;
  /** The one command, or the one thing to do, if it is missing. */
  readonly remedy?: string;
}

export interface ReportSection {
  readonly title: string;
  readonly findings: readonly Finding[];
}

export function examine(): ReportSection[] {
  const cuda = examineCuda();
  return [
    { title: 'System', findings: system() },
    { title: 'WebAssembly', findings: webAssembly() },
    { title: 'Devices', findings: devices(cuda) },
    { title: 'NVIDIA', findings: nvidia(cuda) },
    { title: 'MPI', findings: [mpi()] },
    { title: 'Data', findings: (Object.keys(IMAGE_SETS) as ImageSetName[]).map(imageSet) },
    { title: 'Environment variables', findings: flags() },
  ];
}

export function doctor(): void {
  const columns = widthOf(process.stdout);
  for (const { title, findings } of examine()) {
    process.stdout.write(`${styled(title, 'bold')}\n`);
    const width = Math.max(...findings.map(({ name }) => name.length));
    const margin = width + 6;
    for (const { name, ok, text, remedy } of findings) {
      const mark = ok === undefined ? ' ' : ok ? styled('✓', 'green') : styled('✗', 'red');
      // The mark and the two blanks before it come first.
      const rest = wrapped(`${name.padEnd(width)}  ${text}`, columns - 4, margin - 4).replaceAll(
        '\n',
        '\n    ',
      );
      process.stdout.write(`  ${mark} ${rest}\n`);
      if (remedy)
        process.stdout.write(`${wrapped(`${' '.repeat(margin)}→ ${remedy}`, columns, margin + 2)}\n`);
    }
    process.stdout.write('\n');
  }
}

function system(): Finding[] {
  const major = Number(process.versions.node.split('.')[0]);
  const supported = major >= 20;
  return [
    { name: 'heddle', text: packageVersion() },
    {
      name: 'node',
      ok: supported,
      text: `${process.version} on ${process.platform} ${process.arch}`,
      ...(supported ? {} : { remedy: 'install Node 20 or newer: https://nodejs.org' }),
    },
    {
      name: 'processor',
      text: `${availableParallelism()} cores, ${cpus()[0]?.model.trim() ?? 'of unknown model'}`,
    },
    { name: 'memory', text: `${mebibytes(totalmem())}, ${mebibytes(freemem())} free` },
  ];
}

function webAssembly(): Finding[] {
  const NEWER = 'use a newer Node, without flags that switch it off';
  const found = (name: string, ok: boolean, text: string): Finding => ({
    name,
    ok,
    text: ok ? text : 'not available',
    ...(ok ? {} : { remedy: NEWER }),
  });
  return [
    found('SIMD', hasSimd(), '128-bit vectors'),
    found('threads', hasThreads(), 'shared memory'),
    found('relaxed SIMD', prepareEngine().fma, 'fused multiply-add'),
  ];
}

function hasSimd(): boolean {
  const module = new ModuleBuilder();
  const f = new FunctionBuilder('probe', 'v128');
  const v = f.param('v', 'v128');
  f.get(v);
  f.get(v);
  f.op('f32x4.add');
  module.add(f);
  return validate(module.bytes());
}

function hasThreads(): boolean {
  try {
    return new Memory({ initial: 1, maximum: 1, shared: true }).buffer instanceof SharedArrayBuffer;
  } catch {
    return false;
  }
}

/** A missing GPU is not an error. */
const devices = ({ gpus }: CudaExamination): Finding[] =>
  listDevices().map(({ name, available, reason, hint }) => ({
    name,
    ...((available || gpus.length > 0) && { ok: available }),
    text: reason,
    ...(available || hint === '' ? {} : { remedy: hint }),
  }));

/** Without a GPU none of this is needed, so what is missing is not an error. */
function nvidia({ driver, gpus, links, nvrtc, libraries }: CudaExamination): Finding[] {
  const wanted = gpus.length > 0;
  const missing = (name: string, text: string, remedy: string): Finding =>
    wanted ? { name, ok: false, text, remedy } : { name, text };
  return [
    driver === undefined
      ? { name: 'driver', text: 'not found' }
      : { name: 'driver', ok: true, text: `for CUDA ${driver}` },
    ...gpus.map(({ name, bytes, capability, multiprocessors }, i) => ({
      name: nameOfGpu(i),
      text: `${name}, ${mebibytes(bytes)}, compute capability ${capability.toFixed(1)}, ${multiprocessors} multiprocessors`,
    })),
    ...links.map(linksFinding),
    nvrtc
      ? { name: 'NVRTC', ok: true, text: `${nvrtc.version}, ${nvrtc.origin}: ${nvrtc.path}` }
      : missing('NVRTC', 'not found; it compiles kernels for the GPU', NVRTC_HINT),
    ...libraries.map(({ name, path, version, command }) =>
      path === undefined
        ? missing(name, 'not found; optional', command)
        : {
            name,
            ...(wanted && { ok: true }),
            text: version === undefined ? path : `${version}: ${path}`,
          },
    ),
    ...(wanted ? [tuning()] : []),
  ];
}

const nameOfGpu = (ordinal: number): string => (ordinal === 0 ? 'cuda' : `cuda:${ordinal}`);

/** How a GPU reaches the others, if there are any. */
function linksFinding(
  { nvLinks, peers }: GpuLinks,
  ordinal: number,
  { length }: readonly GpuLinks[],
): Finding {
  const up =
    nvLinks === undefined
      ? 'the driver does not tell'
      : nvLinks.links === 0
        ? 'no link is up'
        : `${counted(nvLinks.links, 'link')} of version ${nvLinks.version}`;
  const reaches =
    length === 1 ? '' : `; reaches the memory of ${peers.map(nameOfGpu).join(', ') || 'no other GPU'}`;
  return { name: `NVLink of ${nameOfGpu(ordinal)}`, text: `${up}${reaches}` };
}

function tuning(): Finding {
  const { path, size } = tuningMemory();
  return {
    name: 'autotuner',
    text:
      size === 0 ? 'remembers nothing yet' : `remembers ${counted(size, 'choice')}${path ? `: ${path}` : ''}`,
  };
}

/** Processes find each other without it: what is missing is not an error. */
function mpi(): Finding {
  const name = 'library';
  try {
    const [found] = findMpi();
    if (!found) return { name, text: 'not found; optional, for programs that mpirun or srun starts' };
    return { name, ok: true, text: `${new MpiLibrary(found).version}: ${found.path}` };
  } catch (error) {
    return { name, ok: false, text: (error as Error).message };
  }
}

function imageSet(name: ImageSetName): Finding {
  const folder = findImages(name);
  if (folder) return { name, ok: true, text: folder };
  return {
    name,
    ok: false,
    text: 'not found (any folder with its files will do: --data FOLDER)',
    remedy: IMAGE_SETS[name].install,
  };
}

const flags = (): Finding[] => [
  ...(Object.keys(FLAG_DOCS) as FlagName[]).map((name) => {
    const value = process.env[name];
    const error = flagError(name);
    const text = `${FLAG_DOCS[name]}${value ? ` [now ${value}]` : ''}`;
    return error ? { name, ok: false, text, remedy: error } : { name, text };
  }),
  ...unknownFlags().map(({ name, hint }) => ({
    name,
    ok: false,
    text: 'is not a variable that Heddle reads',
    remedy: hint,
  })),
];
