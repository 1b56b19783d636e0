/** What the JavaScript engine can do, and the switches that must be set before the first compilation. */
import { allowRelaxedSimd, optimizeWasm } from '#platform/engine.js';
import { env } from '../../core/env.js';
import { FunctionBuilder, ModuleBuilder } from '../../render/wasm/encode.js';
import { validate } from './webassembly.js';

let fused: boolean | undefined;

/** Whether f32x4.relaxed_madd may be used. Switches it on where it is behind a flag (Node 20). */
export function prepareEngine(): { readonly fma: boolean } {
  if (fused === undefined) {
    optimizeWasm();
    fused = supportsRelaxedMadd();
    if (!fused) {
      allowRelaxedSimd();
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
