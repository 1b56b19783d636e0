/** Choices at run time: `c ? a : b`, `a && b`, and the branches of a function that returns early. */
import { block, declare, read, type Statement, set, type Variable, when, zeroOf } from '../ir/ir.js';
import type { Parsing } from './state.js';
import { assignable, choice, staticOf, toCondition, toExpr } from './typing.js';
import { fromExpr, type Syntax, type Value, VOID } from './values.js';

/**
 * `condition ? then : otherwise`, where only the chosen side happens. On constants only that side is parsed; a
 * side that makes statements turns the choice into an `if`.
 */
export function choose(
  p: Parsing,
  node: Syntax,
  condition: Value,
  conditionNode: Syntax,
  nodes: readonly [Syntax, Syntax],
  then: () => Value,
  otherwise: () => Value,
): Value {
  const known = staticOf(condition);
  if (known !== undefined) return known ? then() : otherwise();
  const test = toCondition(p, conditionNode, condition);
  const a = p.conditional(then);
  const b = p.conditional(otherwise);
  const values = [a.result, b.result] as const;
  if (values.some((v) => v.kind === 'void')) {
    if (a.statements.length > 0 || b.statements.length > 0) {
      p.emit(
        when(
          test,
          block(a.statements),
          b.statements.length > 0 ? block(b.statements) : undefined,
          p.at(node),
        ),
      );
    }
    return VOID;
  }
  if (a.statements.length === 0 && b.statements.length === 0) return choice(p, node, test, nodes, values);
  const typed = choice(p, node, test, nodes, values);
  const type = toExpr(p, node, typed).type;
  const variable: Variable = { name: 't', type, constant: false };
  const keep = (side: { statements: Statement[]; result: Value }, at: Syntax): Statement =>
    block([
      ...side.statements,
      set(variable, assignable(p, at, 'the choice', side.result, type.dtype, type.lanes), p.at(at)),
    ]);
  p.emit(declare(variable, zeroOf(type), p.at(node)));
  p.emit(when(test, keep(a, nodes[0]), keep(b, nodes[1]), p.at(node)));
  return fromExpr(read(variable, p.at(node)));
}
