/** Operators of two operands, as `a + b` and as `a += b`. */
import type { ScalarOp } from '../ir/ops.js';
import type { Parsing } from './state.js';
import { apply } from './typing.js';
import { fromStatic, type Syntax, type Value } from './values.js';

const BINARY: Readonly<Record<string, ScalarOp>> = {
  '+': 'add',
  '-': 'sub',
  '*': 'mul',
  '/': 'div',
  '%': 'mod',
  '**': 'pow',
  '<': 'lt',
  '<=': 'le',
  '>': 'gt',
  '>=': 'ge',
  '==': 'eq',
  '===': 'eq',
  '!=': 'ne',
  '!==': 'ne',
  '&': 'and',
  '|': 'or',
  '^': 'xor',
  '<<': 'shl',
  '>>': 'shr',
  '>>>': 'shr',
};

/** The op of a binary operator, for `a + b` and `a += b`. */
export function operator(p: Parsing, node: Syntax, text: string): ScalarOp {
  return BINARY[text] ?? p.fail(node, `\`${text}\` is not part of the kernel language.`);
}

/** `a op b`, both parsed. */
export function combine(
  p: Parsing,
  node: Syntax,
  text: string,
  nodes: readonly Syntax[],
  values: readonly Value[],
): Value {
  // Of constants, JavaScript's own meaning: what `>>>` gives need not be an i32.
  const [a, b] = values.map((v) =>
    v.kind === 'static' && typeof v.value === 'number' ? v.value : undefined,
  );
  if (a !== undefined && b !== undefined && (text === '>>>' || text === '>>'))
    return fromStatic(text === '>>>' ? a >>> b : a >> b);
  const result = apply(p, node, operator(p, node, text), nodes, values);
  if (text === '>>>' && result.kind === 'expr' && result.expr.type.dtype.kind === 'int') {
    p.fail(node, '`>>>` needs an unsigned integer. Convert it: u32(x) >>> n, or write x >> n.');
  }
  return result;
}
