/**
 * Strength reduction: an address that moves evenly with a loop's counter becomes a pointer that is set before the
 * loop and moved at the end of each round, instead of a product and a sum in each.
 *
 * For the lowered form of kernel/passes/address.ts: the base of a load or store is `fixed + counter · constant`.
 */
import { rewrite } from '../../core/rewrite.js';
import {
  alu,
  block,
  declare,
  type Expr,
  int,
  type KernelIr,
  type Node,
  read,
  type Statement,
  set,
  type Variable,
} from '../ir/ir.js';
import { changedIn, jumps } from '../ir/walk.js';
import { Numbering } from './numbering.js';

/** Give every loop of a kernel its pointers. To be run after hoisting. */
export function reduceStrength(ir: KernelIr): KernelIr {
  return { ...ir, body: withPointers(ir.body) };
}

const withPointers = (body: Statement): Statement => block(inside(body));

function inside(s: Statement): Statement[] {
  switch (s.op) {
    case 'block':
      return s.src.flatMap((c) => inside(c as Statement));
    case 'if':
    case 'while': {
      const src = s.src.map((c) => (c.type.kind === 'none' ? withPointers(c as Statement) : c));
      return [{ ...s, src } as Statement];
    }
    case 'for': {
      const [start, end, step, body] = s.src as [Expr, Expr, Expr, Statement];
      const inner = withPointers(body);
      if (step.op !== 'const' || jumps(inner, ['continue']))
        return [{ ...s, src: [start, end, step, inner] }];
      const pointers = new Pointers(s.arg.variable, start, Number(step.arg), inner);
      const moved = pointers.statement(inner);
      const loop = { ...s, src: [start, end, step, block([moved, ...pointers.after])] };
      return [...pointers.before, loop];
    }
    default:
      return [s];
  }
}

class Pointers {
  readonly before: Statement[] = [];
  readonly after: Statement[] = [];
  readonly #counter: Variable;
  readonly #start: Expr;
  readonly #step: number;
  readonly #changing: ReadonlySet<Variable>;
  readonly #numbering = new Numbering();
  readonly #known = new Map<number, Expr>();

  constructor(counter: Variable, start: Expr, step: number, body: Statement) {
    this.#counter = counter;
    this.#start = start;
    this.#step = step;
    this.#changing = changedIn([body]);
  }

  statement(s: Statement): Statement {
    return rewrite<Node>(s, (node) => {
      if (node.op !== 'load' && node.op !== 'store') return undefined;
      const at = node.op === 'load' ? 1 : 2;
      const pointer = this.#pointer(node.src[at] as Expr);
      return pointer && { ...node, src: node.src.with(at, pointer) };
    }) as Statement;
  }

  /** The pointer for an address, if it moves evenly. */
  #pointer(address: Expr): Expr | undefined {
    if (address.op !== 'alu' || address.arg !== 'add') return undefined;
    const [fixed, moving] = address.src as [Expr, Expr];
    const scale = this.#scaleOf(moving);
    const still =
      fixed.op === 'param' ||
      (fixed.op === 'variable' && fixed.arg !== this.#counter && !this.#changing.has(fixed.arg));
    if (scale === undefined || !still) return undefined;
    const number = this.#numbering.of(address, () => 0);
    const known = this.#known.get(number);
    if (known) return known;
    const variable: Variable = { name: 'pointer', type: address.type, constant: false };
    const first =
      this.#start.op === 'const'
        ? int(Number(this.#start.arg) * scale)
        : alu('mul', [this.#start, int(scale)]);
    this.before.push(declare(variable, alu('add', [fixed, first])));
    this.after.push(set(variable, alu('add', [read(variable), int(this.#step * scale)])));
    const result = read(variable);
    this.#known.set(number, result);
    return result;
  }

  /** What the counter is multiplied by. */
  #scaleOf(e: Expr): number | undefined {
    if (e.op === 'variable') return e.arg === this.#counter ? 1 : undefined;
    if (e.op !== 'alu') return undefined;
    const [a, by] = e.src as [Expr, Expr?];
    if (a.op !== 'variable' || a.arg !== this.#counter || by?.op !== 'const') return undefined;
    if (e.arg === 'shl') return 2 ** Number(by.arg);
    return e.arg === 'mul' ? Number(by.arg) : undefined;
  }
}
