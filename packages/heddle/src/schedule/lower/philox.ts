/**
 * Philox4x32-10 as kernel IR: counter-based random bits, the same on every device.
 * J. Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011). core/philox.ts is the same on the host.
 */
import { i64, u32 } from '../../core/dtype.js';
import type { Expr } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';

const word = (v: number): Expr => k.constant(u32, v >>> 0);

type Bind = (e: Expr) => Expr;

/** Word `index` (i32) of the stream from block `counter` (i64) on, keyed by `seed`. */
export function philoxWord(index: Expr, counter: Expr, seed: readonly [number, number], bind: Bind): Expr {
  const at = bind(k.cast(u32, index));
  const c = block(at, counter, seed, bind);
  const lane = bind(k.alu('and', [at, word(3)]));
  const is = (n: number): Expr => k.alu('eq', [lane, word(n)]);
  return k.select(is(0), c[0], k.select(is(1), c[1], k.select(is(2), c[2], c[3])));
}

/** The four words from `index` (i32, a multiple of 4) on. */
export const philoxBlock = (
  index: Expr,
  counter: Expr,
  seed: readonly [number, number],
  bind: Bind,
): readonly Expr[] => block(bind(k.cast(u32, index)), counter, seed, bind);

function block(
  at: Expr,
  counter: Expr,
  seed: readonly [number, number],
  bind: Bind,
): readonly [Expr, Expr, Expr, Expr] {
  const [low, high] = [counter, k.alu('shr', [counter, k.constant(i64, 32n)])].map((e) =>
    bind(k.cast(u32, e)),
  );
  const first = bind(k.alu('add', [low!, k.alu('shr', [at, word(2)])]));
  const carry = k.cast(u32, k.alu('lt', [first, low!]));
  let c: [Expr, Expr, Expr, Expr] = [first, bind(k.alu('add', [high!, carry])), word(0), word(0)];
  let [k0, k1] = seed;
  for (let round = 0; round < 10; round++) {
    const high0 = k.alu('mulhi', [word(0xd2511f53), c[0]]);
    const high1 = k.alu('mulhi', [word(0xcd9e8d57), c[2]]);
    c = [
      bind(k.alu('xor', [k.alu('xor', [high1, c[1]]), word(k0)])),
      bind(k.alu('mul', [word(0xcd9e8d57), c[2]])),
      bind(k.alu('xor', [k.alu('xor', [high0, c[3]]), word(k1)])),
      bind(k.alu('mul', [word(0xd2511f53), c[0]])),
    ];
    k0 = (k0 + 0x9e3779b9) >>> 0;
    k1 = (k1 + 0xbb67ae85) >>> 0;
  }
  return c;
}
