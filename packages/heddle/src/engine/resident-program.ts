/** A schedule as a program that owns its memory: write the inputs, run it, read the outputs. A run allocates nothing. */
import { type CarriedFiles, carrying } from '../runtime/carried-files.js';
import type { Device, DeviceBuffer, Program } from '../runtime/device.js';
import type { Schedule } from '../schedule/launch.js';
import { LaunchLog } from './launch-log.js';
import { type Profile, type ProfileOptions, profileProgram } from './profile.js';
import { launchesOf, resultBytes } from './program.js';
import { BufferStorage } from './storage.js';

const LABEL = 'engines';

/** Where a program finds one of its leaves: in memory that stays as it is, or as an input of so many bytes. */
export type ResidentLeaf =
  | { readonly constant: BufferStorage }
  | { readonly input: number; readonly bytes: number };

export class ResidentProgram {
  readonly device: Device;
  readonly schedule: Schedule;
  /** In the order of the schedule's. */
  readonly leaves: readonly ResidentLeaf[];
  readonly #program: Program;
  /** What runs instead with HEDDLE_DEBUG=2. */
  readonly #log: LaunchLog | undefined;
  /** Of each slot of the program. */
  readonly #memory: readonly BufferStorage[];
  readonly #slots: readonly DeviceBuffer[];
  /** The slot of each input. */
  readonly #inputs: readonly number[];

  /** @param leaves in the order of the schedule's */
  constructor(schedule: Schedule, leaves: readonly ResidentLeaf[], device: Device) {
    this.device = device;
    this.schedule = schedule;
    this.leaves = leaves;
    const own = (bytes: number): BufferStorage => new BufferStorage(bytes, LABEL, device);
    const results = resultBytes(schedule).map(own);
    this.#memory = [
      ...leaves.map((leaf) => ('input' in leaf ? zeroed(own(leaf.bytes)) : leaf.constant)),
      ...results,
      ...(schedule.arenaBytes > 0 ? [own(schedule.arenaBytes)] : []),
    ];
    this.#slots = this.#memory.map(({ buffer }) => buffer);
    const inputs: number[] = [];
    leaves.forEach((leaf, slot) => {
      if ('input' in leaf) inputs[leaf.input] = slot;
    });
    this.#inputs = inputs;
    const launches = launchesOf(schedule, leaves.length);
    this.#program = device.compile(launches);
    this.#log = LaunchLog.of(device, launches, schedule);
  }

  get launches(): number {
    return this.schedule.launches.length;
  }

  /** Write the first bytes of an input. */
  write(input: number, bytes: Uint8Array): void {
    const slot = this.#inputs[input];
    if (slot !== undefined) this.device.write(this.#slots[slot]!, bytes);
  }

  /** Write the first bytes of an input from memory of the device. */
  copy(input: number, from: DeviceBuffer, bytes: number): void {
    const slot = this.#inputs[input];
    if (slot !== undefined) this.device.copy(from, this.#slots[slot]!, bytes);
  }

  /** The files of the caches that compiling it takes. */
  files(): CarriedFiles {
    const files: CarriedFiles = new Map();
    carrying(files, () => this.device.compile(launchesOf(this.schedule, this.leaves.length))).dispose();
    return files;
  }

  /** Run on what the inputs have been written with. */
  run(): void {
    (this.#log ?? this.#program).run(this.#slots);
  }

  /** Device time of a run on what the inputs have been written with. */
  profile(options?: ProfileOptions): Promise<Profile> {
    return profileProgram(this.device, this.#program, this.schedule, this.#slots, options);
  }

  /** The first bytes of an output, as the last run has left it. What is started before this resolves comes after it. */
  read(output: number, bytes: number): Promise<Uint8Array> {
    return this.device.read(this.#bufferOf(output), 0, bytes);
  }

  /** A copy of the first bytes of an output in memory of the device. */
  take(output: number, bytes: number): BufferStorage {
    const taken = new BufferStorage(bytes, 'tensors', this.device);
    this.device.copy(this.#bufferOf(output), taken.buffer, bytes);
    return taken;
  }

  /** Give the memory back. Constants stay, since others may have them. */
  dispose(): void {
    this.#program.dispose();
    this.#log?.dispose();
    this.#memory.forEach((storage, slot) => {
      const leaf = this.leaves[slot];
      if (!leaf || 'input' in leaf) storage.release();
    });
  }

  /** Of a root of the schedule: one that is a leaf as it came has the leaf's memory. */
  #bufferOf(root: number): DeviceBuffer {
    const place = this.schedule.roots[root]!;
    return this.#slots['result' in place ? this.leaves.length + place.result : place.leaf]!;
  }
}

/** Rows that no example fills are computed as well: not from what the memory happened to hold. */
function zeroed(storage: BufferStorage): BufferStorage {
  storage.device.write(storage.buffer, new Uint8Array(storage.bytes));
  return storage;
}
