/** What the JavaScript engine can do, and the switches that must be set before the first compilation. */
import { setFlagsFromString } from 'node:v8';
import { env } from '../../core/env.js';
import { FunctionBuilder, ModuleBuilder } from '../../render/wasm/encode.js';
import { validate } from './webassembly.js';

/** The V8 of Node 24, the first to know the flag. */
const INLINES_WASM = 13;

let fused: boolean | undefined;

/** Whether f32x4.relaxed_madd may be used. Switches it on where it is behind a flag (Node 20). */
export function prepareEngine(): { readonly fma: boolean } {
  if (fused === undefined) {
    // Modules are small and run long: the optimizing compiler at once, not after the baseline one.
    setFlagsFromString('--no-liftoff');
    // Inlining asks for counts that only the baseline compiler takes: Node 26 fails a check without them.
    if (Number.parseInt(process.versions.v8, 10) >= INLINES_WASM) setFlagsFromString('--no-wasm-inlining');
    fused = supportsRelaxedMadd();
    if (!fused) {
      setFlagsFromString('--experimental-wasm-relaxed-simd');
      fused = supportsRelaxedMadd();
    }
  }
  return { fma: fused && env('HEDDLE_FMA') === 1 };
}

function supportsRelaxedMadd(): boolean {
  const module = new ModuleBuilder();
  const f = new FunctionBuilder('probe', 'v128');
  const v = f.param('v', 'v128');
  for (let i = 0; i < 3; i++) f.get(v);
  f.op('f32x4.relaxed_madd');
  module.add(f);
  return validate(module.bytes());
}
