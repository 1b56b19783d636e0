/** Asynchronous copies from global to shared memory (cp.async) in C++. */
import type { Expr, MemoryNode, StoreWay } from '../../kernel/ir/ir.js';
import type { Expressions } from './expression.js';
import { accessOf } from './index-arithmetic.js';
import type { Prelude } from './prelude.js';
import { call, postfix, type Text } from './text.js';

/**
 * The copy that an asynchronous store of `value` is: what is loaded, or zeros where the condition of a select is
 * false. undefined if the value has become another: then it is stored as any other.
 */
export function asyncCopy(
  prelude: Prelude,
  expressions: Expressions,
  memory: MemoryNode,
  indices: readonly Expr[],
  value: Expr,
  way: StoreWay,
): Text | undefined {
  const condition = value.op === 'select' ? (value.src[0] as Expr) : undefined;
  const loaded = condition ? (value.src[1] as Expr) : value;
  const from = loaded.op === 'load' ? accessOf(loaded) : undefined;
  const zeros = !condition || isZero(value.src[2] as Expr);
  if (from?.memory.op !== 'buffer' || condition?.type.lanes === 4 || !zeros) return undefined;
  const { dtype, lanes } = value.type;
  const bytes = dtype.bytes * lanes;
  const once = way === 'async-once' && bytes === 16;
  const name = `copy_async_${bytes}${once ? '_once' : ''}${condition ? '_if' : ''}`;
  // Measured on an H200: by way of L1 the products of small networks take 1.8 instead of 2.2 µs, 2.7 instead of 3.4.
  const cache = once ? 'cg' : 'ca';
  // A copy of 0 bytes writes zeros, and reads nothing.
  const [parameter, size, operand] = condition
    ? [', bool there', ', %2', `, "r"(there ? ${bytes} : 0)`]
    : ['', '', ''];
  prelude.define(
    name,
    () => `__device__ inline void ${name}(void* to, const void* from${parameter}) {
  asm volatile("cp.async.${cache}.shared.global [%0], [%1], ${bytes}${size};"
    :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from))${operand} : "memory");
}`,
  );
  const places = [expressions.address(memory, indices), expressions.address(from.memory, from.indices)];
  return call(name, ...places, ...(condition ? [postfix(expressions.value(condition).text)] : []));
}

const isZero = (e: Expr): boolean =>
  e.op === 'const' ? Number(e.arg) === 0 : e.op === 'splat' && isZero(e.src[0] as Expr);
