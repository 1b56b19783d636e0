/** For machines without instructions for them: exp, log, sin and their kin in terms of basic operations. */
import { rewrite } from '../../core/rewrite.js';
import { elementary, type WaveName } from '../elementary/functions.js';
import { largeWave } from '../elementary/wave.js';
import type { Expr, KernelIr, Node, Statement } from '../ir/ir.js';
import { eliminateCommon } from './cse.js';

/** The kernel without exp, exp2, log, log2, sin, cos, tanh, tf32 and pow. Expressions come to share parts. */
export function decompose(ir: KernelIr): KernelIr {
  const rule = (node: Node): Node | undefined =>
    node.op === 'alu' ? elementary(node.arg, node.src as readonly Expr[]) : undefined;
  const body = rewrite<Node>(ir.body, rule) as Statement;
  return body === ir.body ? ir : { ...ir, body };
}

/** The function that sines or cosines of large numbers call, ready to be printed. */
export function waveFunction(name: WaveName): ReturnType<typeof largeWave> {
  const wave = largeWave(name);
  return { ...wave, body: eliminateCommon(wave.body) };
}
