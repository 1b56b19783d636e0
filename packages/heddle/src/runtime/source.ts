/** The text of a kernel as each renderer writes it. */
import { compile } from '../kernel/compile.js';
import type { KernelIr } from '../kernel/ir.js';
import { printKernel } from '../kernel/print.js';
import type { Target } from '../kernel/target.js';
import { renderCuda } from '../render/cuda.js';
import { renderJs } from '../render/js.js';
import { wasmSource } from '../render/wasm.js';
import { SIM_TARGET } from './sim/launch.js';

/** cuda: what NVRTC compiles · wasm: WebAssembly text · js: what the simulator runs · ir: Heddle's own form */
export type Language = 'cuda' | 'wasm' | 'js' | 'ir';

const GPU: Target = { ...SIM_TARGET, name: 'cuda' };
const CPU: Target = { ...SIM_TARGET, name: 'cpu', model: 'blocks', units: 1, fma: false };

export function sourceOf(ir: KernelIr, language: Language): string {
  switch (language) {
    case 'cuda':
      return renderCuda(compile(ir, GPU));
    case 'wasm':
      return wasmSource(compile(ir, CPU));
    case 'js':
      return renderJs(compile(ir, SIM_TARGET)).source;
    case 'ir':
      return printKernel(ir);
  }
}
