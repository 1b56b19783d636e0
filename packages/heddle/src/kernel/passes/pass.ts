/** What a pass of the kernel compiler is. */
import type { KernelIr } from '../ir/ir.js';
import type { Target } from '../ir/target.js';

/** What a kernel is compiled for. */
export interface KernelSetting {
  readonly target: Target;
  /** Threads of a block, where the launch is known. */
  readonly block?: readonly [number, number, number] | undefined;
}

export interface KernelPass {
  readonly name: string;
  /** Whether it is for this setting; always if absent. */
  readonly when?: (setting: KernelSetting, ir: KernelIr) => boolean;
  readonly run: (ir: KernelIr, setting: KernelSetting) => KernelIr;
}
