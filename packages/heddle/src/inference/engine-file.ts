/**
 * Saved engines: a safetensors file. `program.0`, `program.1`… are the schedules (a text each), `code/…` the files that a device makes
 * of their kernels, `constant.0`… the weights as the kernels read them, and the last four bytes, `sum.crc32`, a CRC-32 of all bytes
 * before. The metadata say what it is and what it is for.
 */
import { BUILD_ID } from '../core/build-id.js';
import { DTYPES, type DTypeName } from '../core/dtype.js';
import { FileError } from '../core/errors.js';
import { once } from '../core/log.js';
import type { Shape } from '../core/shape.js';
import { packSchedule, unpackSchedule } from '../engine/packed-schedule.js';
import { type ResidentLeaf, ResidentProgram } from '../engine/resident-program.js';
import { BufferStorage } from '../engine/storage.js';
import { writeFileAtomic } from '../io/atomic.js';
import { crc32 } from '../io/crc32.js';
import { type FileParts, readInParts } from '../io/read.js';
import {
  encodeSafetensors,
  parseSafetensorsHeader,
  type StoredMetadata,
  type StoredTensor,
  safetensorsHeaderBytes,
} from '../io/safetensors.js';
import { type CarriedFiles, carrying } from '../runtime/carried-files.js';
import type { Device } from '../runtime/device.js';
import type { EngineParts, EngineValue } from './engine-parts.js';
import type { EnginePrecision } from './trace-model.js';

const FORMAT = 'heddle-engine-1';
const SUM = 'sum.crc32';
const SUM_BYTES = 4;
const CODE = 'code/';
const CONSTANT = 'constant.';
const BUILD = BUILD_ID ?? 'not built';

/** An input or output as JSON. */
interface StoredValue {
  readonly name: string;
  readonly dtype: DTypeName;
  readonly shape: Shape;
}

/** The metadata `engine`, as JSON. */
interface Description {
  readonly inputs: readonly StoredValue[];
  readonly outputs: readonly StoredValue[];
  readonly precision: EnginePrecision;
  /** What its kernels were chosen for: a kind of device and, on a GPU, the compute capability × 10. */
  readonly device: string;
  readonly capability: number;
  readonly programs: number;
}

/** What a program's schedule is kept with. */
interface ProgramLeaves {
  readonly batch: number;
  readonly leaves: readonly (
    | { readonly input: number; readonly bytes: number }
    | { readonly constant: number }
  )[];
}

const raw = (data: Uint8Array): StoredTensor => ({ dtype: 'u8', shape: [data.length], data });

/** Write an engine, atomically. @throws FileError */
export async function saveEngine(path: string, engine: EngineParts): Promise<void> {
  const { inputs, outputs, precision, device, programs } = engine;
  const constants: BufferStorage[] = [];
  const numberOf = (storage: BufferStorage): number =>
    constants.includes(storage) ? constants.indexOf(storage) : constants.push(storage) - 1;
  const tensors: Record<string, StoredTensor> = {};
  for (const [i, { batch, program }] of programs.entries()) {
    const leaves = program.leaves.map((leaf) =>
      'input' in leaf ? leaf : { constant: numberOf(leaf.constant) },
    );
    const text = packSchedule({ ...program.schedule, before: undefined }, {
      batch,
      leaves,
    } satisfies ProgramLeaves);
    tensors[`program.${i}`] = raw(new TextEncoder().encode(text));
    for (const [name, contents] of program.files()) tensors[`${CODE}${name}`] = raw(contents);
  }
  for (const [i, { buffer, bytes }] of constants.entries())
    tensors[`${CONSTANT}${i}`] = raw(await device.read(buffer, 0, bytes));
  tensors[SUM] = raw(new Uint8Array(SUM_BYTES));
  const stored = ({ name, dtype, shape }: EngineValue): StoredValue => ({ name, dtype: dtype.name, shape });
  const description: Description = {
    ...{ inputs: inputs.map(stored), outputs: outputs.map(stored), precision },
    ...{ device: device.target.name, capability: device.target.capability, programs: programs.length },
  };
  const metadata = { format: FORMAT, build: BUILD, engine: JSON.stringify(description) };
  // Equal dtypes are in the order of their names.
  const parts = encodeSafetensors(tensors, metadata, path).slice(0, -1);
  const sum = parts.reduce((before, part) => crc32(part, before), 0);
  await writeFileAtomic(path, [...parts, bytesOfSum(sum)]);
}

function bytesOfSum(sum: number): Uint8Array {
  const bytes = new Uint8Array(SUM_BYTES);
  new DataView(bytes.buffer).setUint32(0, sum, true);
  return bytes;
}

/** Bytes that are read at a time: they stay in the processor's cache on their way to the device. */
const PART = 2 ** 20;

/** What a file of an engine holds: the constants, on the device already, and the rest. */
interface EngineContents {
  readonly constants: ReadonlyMap<number, BufferStorage>;
  readonly texts: ReadonlyMap<string, Uint8Array>;
  readonly metadata: StoredMetadata;
}

/** The contents of a file, whose bytes go to the device as they are read. @throws FileError */
async function readContents(
  { size, fill }: FileParts,
  path: string,
  device: Device,
  constants: Map<number, BufferStorage>,
): Promise<EngineContents> {
  const first = new Uint8Array(Math.min(size, 8));
  await fill(first, 0);
  const start = new Uint8Array(safetensorsHeaderBytes(first, size, path));
  await fill(start, 0);
  const { entries, metadata } = parseSafetensorsHeader(start, size, path);
  const last = entries.at(-1);
  if (metadata.format !== FORMAT || last?.name !== SUM || last.end - last.begin !== SUM_BYTES)
    throw new FileError(
      path,
      `is no engine of format ${FORMAT}${metadata.format ? `, but of ${metadata.format}` : ''}. Save one with engine.save(path).`,
    );
  const texts = new Map<string, Uint8Array>();
  const takers = entries.map(({ name, begin, end }) => {
    if (!name.startsWith(CONSTANT)) {
      const bytes = new Uint8Array(end - begin);
      texts.set(name, bytes);
      return (part: Uint8Array, at: number): void => bytes.set(part, at);
    }
    const storage = new BufferStorage(end - begin, 'engines', device);
    constants.set(Number(name.slice(CONSTANT.length)), storage);
    return (part: Uint8Array, at: number): void => device.write(storage.buffer, part, at);
  });
  const piece = new Uint8Array(Math.min(PART, size - start.length));
  let sum = crc32(start);
  let next = 0;
  for (let at = 0; at < size - start.length; at += PART) {
    const bytes = piece.subarray(0, Math.min(PART, size - start.length - at));
    await fill(bytes, start.length + at);
    sum = crc32(bytes.subarray(0, Math.max(0, last.begin - at)), sum);
    for (; next < entries.length && entries[next]!.begin < at + bytes.length; next++) {
      const { begin, end } = entries[next]!;
      const from = Math.max(begin, at);
      takers[next]!(
        bytes.subarray(from - at, Math.max(from, Math.min(end, at + bytes.length)) - at),
        from - begin,
      );
      if (end > at + bytes.length) break;
    }
  }
  const given = texts.get(SUM)!;
  if (!bytesOfSum(sum).every((byte, i) => byte === given[i]))
    throw new FileError(
      path,
      'its checksum is wrong. The file is damaged or was not fully written: save the engine again.',
    );
  return { constants, texts, metadata };
}

/**
 * What `saveEngine` wrote, on a device. Kernels whose code is for another processor are compiled again, which is said on stderr.
 * @throws FileError for a file that is damaged, of another build, or for another kind of device
 */
export async function readEngine(path: string, device: Device): Promise<EngineParts> {
  const constants = new Map<number, BufferStorage>();
  try {
    const contents = await readInParts(path, (file) => readContents(file, path, device, constants));
    return partsOf(contents, path, device);
  } catch (error) {
    for (const storage of constants.values()) storage.release();
    throw error;
  }
}

function partsOf({ constants, texts, metadata }: EngineContents, path: string, device: Device): EngineParts {
  if (metadata.build !== BUILD)
    throw new FileError(
      path,
      `was saved by build ${metadata.build} of Heddle, this is ${BUILD}: what one build compiles is not for another. Compile the model again.`,
    );
  const { inputs, outputs, precision, programs, ...made } = JSON.parse(metadata.engine!) as Description;
  const { target } = device;
  if (made.device !== target.name || made.capability !== target.capability)
    throw new FileError(
      path,
      `was compiled for ${kindOf(made.device, made.capability)}, ${device.name} is ${kindOf(target.name, target.capability)}. ` +
        'Compile the model again, or load it on another device.',
    );
  const files: CarriedFiles = new Map();
  for (const [name, data] of texts) if (name.startsWith(CODE)) files.set(name.slice(CODE.length), data);
  const carried = files.size;
  const loaded = Array.from({ length: programs }, (_, i) => {
    const text = new TextDecoder().decode(texts.get(`program.${i}`)!);
    const { schedule, beside } = unpackSchedule<ProgramLeaves>(text);
    const leaves = beside.leaves.map(
      (leaf): ResidentLeaf => ('input' in leaf ? leaf : { constant: constants.get(leaf.constant)! }),
    );
    return {
      batch: beside.batch,
      program: carrying(files, () => new ResidentProgram(schedule, leaves, device)),
    };
  });
  if (files.size > carried)
    once(
      `${path}: its kernels were compiled on another processor than ${device.description}; they were compiled again`,
    );
  const value = ({ name, dtype, shape }: StoredValue): EngineValue => ({ name, dtype: DTYPES[dtype], shape });
  return { inputs: inputs.map(value), outputs: outputs.map(value), precision, device, programs: loaded };
}

const kindOf = (name: string, capability: number): string =>
  capability > 0 ? `${name} with compute capability ${capability / 10}` : name;
