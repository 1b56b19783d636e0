/** Asynchronous copies from global to shared memory (cp.async) in C++. */
import { InternalError } from '../../core/errors.js';
import { asyncCopyOf } from '../../kernel/ir/async-copy.js';
import type { Expr, MemoryNode, Statement, StoreWay } from '../../kernel/ir/ir.js';
import type { CudaExpressions } from './expression.js';
import { accessOf } from './index-arithmetic.js';
import type { Prelude } from './prelude.js';
import { call, postfix, type Text } from './text.js';

/** An asynchronous store: a copy of what is loaded, or zeros where the condition is false. */
export function asyncCopy(
  prelude: Prelude,
  expressions: CudaExpressions,
  memory: MemoryNode,
  indices: readonly Expr[],
  store: Statement & { op: 'store' },
  way: StoreWay,
): Text {
  const copy = asyncCopyOf(store);
  if (!copy) throw new InternalError('an asynchronous store of no copy: kernel/passes/copies.ts comes first');
  const { loaded, condition } = copy;
  const from = accessOf(loaded)!;
  const { dtype, lanes } = loaded.type;
  const bytes = dtype.bytes * lanes;
  const once = way === 'async-once' && bytes === 16;
  const name = `copy_async_${bytes}${once ? '_once' : ''}${condition ? '_if' : ''}`;
  // By way of the first-level cache the products of small networks take a fifth less time.
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
