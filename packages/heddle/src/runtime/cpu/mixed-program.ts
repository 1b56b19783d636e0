/** A program with routines of the host between its kernels: programs of kernels, and calls, in the order of the launches. */
import { DeviceError } from '../../core/errors.js';
import type { DeviceBuffer, KernelLaunch, Launch, LibraryLaunch, Program } from '../device.js';
import { hostRoutine } from '../host-routines.js';
import { CpuProgram, type ProgramHost } from './program.js';

/** Kernels that follow each other, or one call. */
type Part = CpuProgram | ((slots: readonly DeviceBuffer[]) => void);

export class MixedProgram implements Program {
  readonly launches: readonly Launch[];
  readonly #parts: readonly Part[];

  constructor(host: ProgramHost, launches: readonly Launch[]) {
    this.launches = launches;
    const parts: Part[] = [];
    let first = 0;
    const endKernels = (end: number): void => {
      if (end > first)
        parts.push(new CpuProgram(host, alone(launches.slice(first, end) as KernelLaunch[], first)));
      first = end + 1;
    };
    launches.forEach((launch, i) => {
      if ('kernel' in launch) return;
      endKernels(i);
      parts.push(call(launch, host));
    });
    endKernels(launches.length);
    this.#parts = parts;
  }

  run(slots: readonly DeviceBuffer[], times = 1): void {
    for (let i = 0; i < times; i++)
      for (const part of this.#parts) {
        if (part instanceof CpuProgram) part.run(slots);
        else part(slots);
      }
  }

  dispose(): void {
    for (const part of this.#parts) if (part instanceof CpuProgram) part.dispose();
  }
}

/** Launches as a separate program: those before `first` have run. */
const alone = (launches: readonly KernelLaunch[], first: number): readonly KernelLaunch[] =>
  launches.map((launch) =>
    launch.needs
      ? { ...launch, needs: launch.needs.filter((n) => n >= first).map((n) => n - first) }
      : launch,
  );

function call({ library, args }: LibraryLaunch, host: ProgramHost): (slots: readonly DeviceBuffer[]) => void {
  return (slots) => {
    const addresses = args.map((arg) => {
      if ('value' in arg)
        throw new DeviceError(`[${library.name}] takes buffers, not the number ${arg.value}.`);
      return host.addressOf(slots[arg.slot]!) + arg.offset;
    });
    hostRoutine(library)(library, host.heap.bytes, addresses);
  };
}
