/** Schedules as text that is read back: a line for the schedule and what is kept with it, and two for each kernel. */
import { sha256Hex } from '#platform/hash.js';
import { ObjectReader, ObjectWriter } from '../core/object-table.js';
import { knownKernelHash, setKernelHash } from '../kernel/ir/fingerprint.js';
import type { KernelIr } from '../kernel/ir/ir.js';
import { packKernel, unpackKernel } from '../kernel/ir/pack.js';
import type { Schedule, ScheduledLaunch, StageWork } from '../schedule/launch.js';

/** A schedule with its kernels by their numbers. */
interface NumberedSchedule extends Omit<Schedule, 'launches' | 'before'> {
  readonly launches: readonly NumberedLaunch[];
  readonly before?: NumberedSchedule | undefined;
}

interface NumberedLaunch extends Omit<ScheduledLaunch, 'work'> {
  readonly work: Extract<StageWork, { library: unknown }> | NumberedWork;
}

interface NumberedWork extends Omit<Extract<StageWork, { kernel: unknown }>, 'kernel'> {
  readonly kernel: number;
}

/** The first line. */
interface Packed<Beside> {
  readonly schedule: NumberedSchedule;
  readonly beside: Beside;
  /** Of each kernel: what `kernelHash` is from then on. */
  readonly hashes: readonly string[];
}

/** @param beside is kept with the schedule */
export function packSchedule(schedule: Schedule, beside: object): string {
  const kernels: KernelIr[] = [];
  const numbered = ({ launches, before, ...rest }: Schedule): NumberedSchedule => ({
    ...rest,
    launches: launches.map((launch): NumberedLaunch => {
      if ('library' in launch.work) return { ...launch, work: launch.work };
      const { kernel, ...work } = launch.work;
      if (!kernels.includes(kernel)) kernels.push(kernel);
      return { ...launch, work: { ...work, kernel: kernels.indexOf(kernel) } };
    }),
    before: before && numbered(before),
  });
  const own = numbered(schedule);
  const packed = kernels.map(packKernel);
  const hashes = kernels.map((kernel, i) => {
    const hash = knownKernelHash(kernel) ?? sha256Hex(packed[i]!.join('\n'));
    setKernelHash(kernel, hash);
    return hash;
  });
  const first: Packed<object> = { schedule: own, beside, hashes };
  return [new ObjectWriter().write(first), ...packed.flat()].join('\n');
}

/** What `packSchedule` was given. The inside of a kernel is read when it is asked for. */
export function unpackSchedule<Beside>(text: string): {
  readonly schedule: Schedule;
  readonly beside: Beside;
} {
  const [first, ...lines] = text.split('\n');
  const { schedule, beside, hashes } = new ObjectReader().read(first!) as Packed<Beside>;
  const kernels = hashes.map((hash, i) => {
    const kernel = unpackKernel(lines[2 * i]!, lines[2 * i + 1]!);
    setKernelHash(kernel, hash);
    return kernel;
  });
  const whole = ({ launches, before, ...rest }: NumberedSchedule): Schedule => ({
    ...rest,
    launches: launches.map(({ work, ...launch }): ScheduledLaunch => {
      return { ...launch, work: 'library' in work ? work : { ...work, kernel: kernels[work.kernel]! } };
    }),
    ...(before && { before: whole(before) }),
  });
  return { schedule: whole(schedule), beside };
}
