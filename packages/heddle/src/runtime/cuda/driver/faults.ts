/** What a kernel that fails asynchronously is told about: the driver says so at some later call, and nothing more. */
import { DeviceError, type KernelError } from '../../../core/errors.js';
import { DriverError } from './driver.js';

/** Errors that kernels cause, after which the context answers nothing else. */
const FATAL: ReadonlySet<string> = new Set([
  'CUDA_ERROR_ILLEGAL_ADDRESS',
  'CUDA_ERROR_LAUNCH_TIMEOUT',
  'CUDA_ERROR_ASSERT',
  'CUDA_ERROR_HARDWARE_STACK_ERROR',
  'CUDA_ERROR_ILLEGAL_INSTRUCTION',
  'CUDA_ERROR_MISALIGNED_ADDRESS',
  'CUDA_ERROR_INVALID_ADDRESS_SPACE',
  'CUDA_ERROR_INVALID_PC',
  'CUDA_ERROR_LAUNCH_FAILED',
  'CUDA_ERROR_ECC_UNCORRECTABLE',
]);

/** Programs that a fault may come from. */
const REMEMBERED = 4;
/** Names of kernels in a message. */
const NAMED = 12;

interface NamedLaunch {
  readonly name: string;
}
/** A program, as far as its launches have names. */
export interface RecentProgram {
  readonly plan: readonly NamedLaunch[];
}

export class Faults {
  /** Why nothing works any more, once a kernel has failed. */
  lost: DeviceError | undefined;
  readonly #device: string;
  /** The last first. */
  readonly #recent: RecentProgram[] = [];

  constructor(device: string) {
    this.#device = device;
  }

  /** A program is about to run. */
  remember(program: RecentProgram): void {
    if (this.#recent[0] === program) return;
    this.#recent.unshift(program);
    if (this.#recent.length > REMEMBERED) this.#recent.pop();
  }

  /**
   * What to throw for an error: of a fault, which kernels it may come from and what is to be done.
   * @param launch what was running, where that is known
   * @param assertion called when the device is lost just now: the first assertion that failed before
   */
  explain(
    error: unknown,
    launch: NamedLaunch | undefined,
    assertion: () => KernelError | undefined,
  ): unknown {
    if (!(error instanceof DriverError)) return error;
    if (this.lost) return this.lost;
    if (!FATAL.has(error.resultName)) return error;
    const names = [...new Set(this.#recent.flatMap((p) => p.plan.map((l) => l.name)))];
    const more = names.length > NAMED ? ` and ${names.length - NAMED} more` : '';
    const culprit = launch
      ? `The kernel ${launch.name} failed`
      : `One of the kernels run last failed (HEDDLE_CUDA_SYNC=1 finds which: ${names.slice(0, NAMED).join(', ')}${more})`;
    const before = assertion();
    this.lost = new DeviceError(
      `${culprit}: ${error.message} What was on ${this.#device} is lost, and the process must be started again. ` +
        `kernel.simulate or HEDDLE_DEVICE=sim finds the line.${before ? ` Before that: ${before.message}` : ''}`,
      { cause: error },
    );
    return this.lost;
  }
}
