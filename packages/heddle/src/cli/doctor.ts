/** `heddle doctor`: what this machine offers, what is missing and how to get it. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { availableParallelism, cpus, freemem, totalmem } from 'node:os';
import { join } from 'node:path';
import { FLAGS, type FlagName } from '../core/env.js';
import { findImages, IMAGE_SETS, type ImageSetName } from '../data/index.js';
import { FunctionBuilder, ModuleBuilder } from '../render/wasm-encode.js';
import { prepareEngine } from '../runtime/cpu/engine.js';
import { Memory, validate } from '../runtime/cpu/webassembly.js';
import { listDevices } from '../runtime/registry.js';
import { mebibytes } from './format.js';
import { packageVersion } from './version.js';

/** One thing looked at. Without `ok` it is neither good nor bad. */
export interface Finding {
  readonly name: string;
  readonly ok?: boolean;
  readonly text: string;
  /** The one command, or the one thing to do, if it is missing. */
  readonly remedy?: string;
}

export interface Section {
  readonly title: string;
  readonly findings: readonly Finding[];
}

export const examine = (): Section[] => [
  { title: 'System', findings: system() },
  { title: 'WebAssembly', findings: webAssembly() },
  { title: 'Devices', findings: [...devices(), nvidia()] },
  { title: 'Data', findings: (Object.keys(IMAGE_SETS) as ImageSetName[]).map(imageSet) },
  { title: 'Environment variables', findings: flags() },
];

export function doctor(): void {
  for (const { title, findings } of examine()) {
    process.stdout.write(`${title}\n`);
    const width = Math.max(...findings.map(({ name }) => name.length));
    for (const { name, ok, text, remedy } of findings) {
      const mark = ok === undefined ? ' ' : ok ? '✓' : '✗';
      process.stdout.write(`  ${mark} ${name.padEnd(width)}  ${text}\n`);
      if (remedy) process.stdout.write(`    ${' '.repeat(width)}  → ${remedy}\n`);
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

const devices = (): Finding[] =>
  listDevices().map(({ name, available, reason, hint }) => ({
    name,
    ok: available,
    text: reason,
    ...(available || hint === '' ? {} : { remedy: hint }),
  }));

const DRIVER_FOLDERS = [
  '/usr/lib/x86_64-linux-gnu',
  '/usr/lib/aarch64-linux-gnu',
  '/usr/lib64',
  '/usr/lib',
  '/usr/lib/wsl/lib',
  '/usr/local/cuda/compat',
  '/usr/local/nvidia/lib64',
];

/** The driver is looked for; using it comes with the CUDA device. */
function nvidia(): Finding {
  const name = 'NVIDIA';
  const later = 'the CUDA device comes with a later version';
  const folders = [...(process.env.LD_LIBRARY_PATH ?? '').split(':').filter(Boolean), ...DRIVER_FOLDERS];
  const library = folders.map((folder) => join(folder, 'libcuda.so.1')).find((path) => existsSync(path));
  const gpus = gpuModels();
  if (library) return { name, text: `${gpus.join(', ') || 'driver'} (${library}); ${later}` };
  if (gpus.length > 0) {
    return {
      name,
      text: `${gpus.join(', ')}, but no libcuda.so.1; ${later}`,
      remedy: 'install the driver library that fits the kernel module, such as libcuda1',
    };
  }
  return { name, text: `no driver found; none is needed: ${later}` };
}

function gpuModels(): string[] {
  const folder = '/proc/driver/nvidia/gpus';
  if (!existsSync(folder)) return [];
  return readdirSync(folder).flatMap((gpu) => {
    const model = /^Model:\s*(.+)$/m.exec(readFileSync(join(folder, gpu, 'information'), 'utf8'));
    return model ? [model[1]!] : [];
  });
}

function imageSet(name: ImageSetName): Finding {
  const folder = findImages(name);
  if (folder) return { name, ok: true, text: folder };
  return {
    name,
    ok: false,
    text: 'not found (any folder with its four IDX files will do: --data FOLDER)',
    remedy: IMAGE_SETS[name].install,
  };
}

const flags = (): Finding[] =>
  (Object.keys(FLAGS) as FlagName[]).map((name) => {
    const value = process.env[name];
    return { name, text: `${FLAGS[name].doc}${value ? ` [now ${value}]` : ''}` };
  });
