/** The text of a kernel as each renderer writes it. */
import { shown } from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import type { KernelIr } from '../kernel/ir/ir.js';
import { printKernel } from '../kernel/ir/print.js';
import type { Target } from '../kernel/ir/target.js';
import { compile } from '../kernel/passes/pipeline.js';
import { renderCuda } from '../render/cuda/render.js';
import { renderJs } from '../render/js/render.js';
import { wasmSource } from '../render/wasm/render.js';
import { SIM_TARGET } from './sim/launch.js';

/** cuda: what NVRTC compiles · wasm: WebAssembly text · js: what the simulator runs · ir: Heddle's own form */
export type Language = 'cuda' | 'wasm' | 'js' | 'ir';

const GPU: Target = { ...SIM_TARGET, name: 'cuda' };
const CPU: Target = { ...SIM_TARGET, name: 'cpu', model: 'blocks', units: 1, fma: false };

const WRITERS: Readonly<Record<Language, (ir: KernelIr) => string>> = {
  cuda: (ir) => renderCuda(compile(ir, GPU)),
  wasm: (ir) => wasmSource(compile(ir, CPU)),
  js: (ir) => renderJs(compile(ir, SIM_TARGET)).source,
  ir: printKernel,
};

/** @throws ArgumentError for another language */
export function sourceOf(ir: KernelIr, language: Language): string {
  if (!Object.hasOwn(WRITERS, language))
    throw new ArgumentError(
      `[${ir.name}] ${shown(language)} is not a language of a kernel's source. Expected one of: ${Object.keys(WRITERS).join(', ')}.`,
    );
  return WRITERS[language](ir);
}
