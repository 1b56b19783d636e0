/** The grammar of the kernel IR, checked after every pass under HEDDLE_CHECK=1. */
import { bool, i32, isInteger } from '../../core/dtype.js';
import { InternalError } from '../../core/errors.js';
import type { IntrinsicRecord } from './intrinsic-record.js';
import { INTRINSICS, resultOf } from './intrinsics.js';
import {
  type ArrayDecl,
  type Expr,
  isPair,
  type KernelIr,
  type MemoryNode,
  type Node,
  type Param,
  SCRATCH,
  type Statement,
  type Variable,
} from './ir.js';
import { indicesOf, operandsOf } from './operands.js';
import { OPS, type OpRecord, takesOperands } from './ops.js';
import { formatType, isBuffer, type KernelType, value as ofType, sameValueType } from './types.js';

/** @throws InternalError naming `pass` and the node, if `ir` breaks a rule of kernel/ir/ir.ts */
export function verify(ir: KernelIr, pass: string): void {
  new Verifier(ir, pass).kernel();
}

const STATEMENTS: ReadonlySet<string> = new Set(
  'block let set store update if for while break continue return effect assert print'.split(' '),
);

const isMemory = ({ op }: Node): boolean => op === 'buffer' || op === 'array';

class Verifier {
  readonly #ir: KernelIr;
  readonly #pass: string;
  readonly #visible = new Map<Variable, 'settable' | 'fixed'>();
  /** All that were ever declared, with their numbers in that order. */
  readonly #declared = new Map<Variable, number>();
  /** What the innermost scope has declared. */
  #scope: Variable[] = [];
  /**
   * Expressions known to be right, each with the variable in it that was declared last, if there is one: scopes end from the
   * inside, so that while this one is visible the others are, too.
   */
  readonly #checked = new Map<Expr, Variable | undefined>();
  #loops = 0;

  constructor(ir: KernelIr, pass: string) {
    this.#ir = ir;
    this.#pass = pass;
  }

  kernel(): void {
    const { body, lowered } = this.#ir;
    if (lowered) this.#statement(lowered.once);
    this.#statement(body);
  }

  /** Memory is named by [base, offset]. */
  get #addressed(): boolean {
    return this.#ir.lowered?.scratchBytes !== undefined;
  }

  #fail(node: Node, rule: string): never {
    const at = node.at ? ` at ${node.at.file}:${node.at.line}` : '';
    throw new InternalError(
      `kernel ${this.#ir.name}, after the pass ${this.#pass}: \`${node.op}\`${at}: ${rule}`,
    );
  }

  /** @param rule where it names values, how to say it: most rules hold */
  #need(node: Node, holds: boolean, rule: string | (() => string)): void {
    if (!holds) this.#fail(node, typeof rule === 'string' ? rule : rule());
  }

  /**
   * Statements of a block see what was declared before them; what a block declares ends with it, but for the locals
   * of a lowered kernel.
   */
  #scoped(check: () => void): void {
    if (this.#ir.lowered) {
      check();
      return;
    }
    const outer = this.#scope;
    this.#scope = [];
    check();
    for (const v of this.#scope) this.#visible.delete(v);
    this.#scope = outer;
  }

  #block(node: Node | undefined, owner: Node): void {
    if (node?.op !== 'block') this.#fail(owner, 'a block is missing');
    this.#statement(node);
  }

  #loop(body: Node | undefined, owner: Node): void {
    this.#loops++;
    this.#block(body, owner);
    this.#loops--;
  }

  #declare(node: Node, variable: Variable, use: 'settable' | 'fixed'): void {
    this.#need(node, !this.#declared.has(variable), () => `${variable.name} is declared twice`);
    this.#declared.set(variable, this.#declared.size);
    this.#visible.set(variable, use);
    this.#scope.push(variable);
  }

  #statement(node: Statement): void {
    const { src } = node;
    switch (node.op) {
      case 'block':
        this.#scoped(() => {
          for (const s of src) {
            if (!STATEMENTS.has(s.op)) this.#fail(s, 'is not a statement');
            this.#statement(s as Statement);
          }
        });
        return;
      case 'let':
        this.#value(node, src[0], node.arg.type);
        this.#declare(node, node.arg, node.arg.constant ? 'fixed' : 'settable');
        return;
      case 'set':
        if (this.#ir.lowered && !this.#visible.has(node.arg)) this.#declare(node, node.arg, 'settable');
        this.#need(
          node,
          this.#visible.get(node.arg) === 'settable',
          () => `${node.arg.name} may not be set here`,
        );
        this.#value(node, src[0], node.arg.type);
        return;
      case 'store': {
        const [memory, value, ...indices] = src;
        this.#place(node, memory, indices);
        const v = this.#expr(node, value);
        this.#need(
          node,
          v.dtype === (memory as MemoryNode).type.dtype,
          () => `stores ${formatType(v)} to ${formatType((memory as MemoryNode).type)}`,
        );
        this.#lanes(node, memory as MemoryNode, v.lanes);
        return;
      }
      case 'update': {
        const [memory, value, ...place] = src;
        this.#need(node, this.#addressed, 'stands in a lowered kernel only');
        this.#place(node, memory, place);
        this.#need(node, node.arg.type.dtype === (memory as MemoryNode).type.dtype, 'holds what stood there');
        this.#declare(node, node.arg, 'settable');
        this.#value(node, value, node.arg.type);
        return;
      }
      case 'if':
        this.#condition(node, src[0]);
        this.#block(src[1], node);
        if (src.length > 2) this.#block(src[2], node);
        return;
      case 'for': {
        const { variable } = node.arg;
        for (const s of src.slice(0, 3)) this.#value(node, s, variable.type);
        this.#need(
          node,
          isInteger(variable.type.dtype) && variable.type.lanes === 1,
          'counts with an integer',
        );
        this.#scoped(() => {
          this.#declare(node, variable, 'fixed');
          this.#loop(src[3], node);
        });
        return;
      }
      case 'while':
        this.#condition(node, src[0]);
        this.#loop(src[1], node);
        this.#block(src[2], node);
        return;
      case 'break':
      case 'continue':
        this.#need(node, this.#loops > 0, 'stands outside of a loop');
        return;
      case 'return':
        return;
      case 'effect':
        if (node.arg) this.#act(node, INTRINSICS[node.arg], node.arg === 'barrier' ? 1 : 0);
        else if (src[0]?.op !== 'intrinsic') this.#fail(node, 'an effect needs an intrinsic');
        else this.#expr(node, src[0]);
        return;
      case 'assert':
        this.#condition(node, src[0]);
        return;
      case 'print':
        for (const s of src) this.#expr(node, s);
        return;
    }
  }

  /** @param more arguments that it may have besides */
  #act(node: Statement, record: IntrinsicRecord, more: number): void {
    const { places, values } = operandsOf(record, node.src);
    for (const { kind, memory, indices } of places) {
      if (memory?.op !== 'buffer' && memory?.op !== 'array') this.#fail(node, 'memory is missing');
      this.#need(
        node,
        indices.length === indicesOf(kind, memory),
        () => `${memory.arg.name} has other indices`,
      );
      for (const index of indices) this.#value(node, index, ofType(i32));
    }
    const { length } = record.params;
    this.#need(
      node,
      values.length >= length && values.length <= length + more,
      () => `${node.arg} has other arguments`,
    );
    for (const v of values) this.#expr(node, v);
  }

  #value(node: Node, v: Node | undefined, type: KernelType): void {
    const own = this.#expr(node, v);
    this.#need(
      node,
      type.kind === 'value' && sameValueType(own, type),
      () => `has ${formatType(own)} where ${formatType(type)} is needed`,
    );
  }

  #condition(node: Node, v: Node | undefined): void {
    const type = this.#expr(node, v);
    this.#need(node, type.dtype === bool && type.lanes === 1, 'a condition is a scalar bool');
  }

  #place(node: Node, memory: Node | undefined, indices: readonly Node[]): void {
    if (memory?.op !== 'buffer' && memory?.op !== 'array') this.#fail(node, 'memory is missing');
    const known: readonly (ArrayDecl | Param)[] = memory.op === 'array' ? this.#ir.arrays : this.#ir.params;
    this.#need(node, known.includes(memory.arg), () => `${memory.arg.name} is not of this kernel`);
    const rank = this.#addressed ? 2 : Math.max(1, memory.type.dims.length);
    this.#need(
      node,
      indices.length === rank,
      () => `${memory.arg.name} takes ${rank} indices, got ${indices.length}`,
    );
    for (const index of indices) {
      const type = this.#expr(node, index);
      this.#need(node, type.dtype === i32 && type.lanes === 1, 'an index is i32');
    }
    if (this.#addressed) this.#need(node, indices[1]!.op === 'const', 'an offset is a constant');
  }

  #lanes(node: Node, memory: MemoryNode, lanes: number): void {
    const own = memory.op === 'array' ? memory.arg.lanes : 1;
    this.#need(node, own === 1 || own === lanes, () => `elements have ${own} lanes, not ${lanes}`);
  }

  /** Check an expression; its type. */
  #expr(owner: Node, node: Node | undefined): Expr['type'] {
    if (!node || node.type === undefined || (node.type as KernelType).kind !== 'value')
      this.#fail(owner, 'a value is missing');
    const e = node as Expr;
    const known = this.#checked.has(e);
    if (known) {
      const last = this.#checked.get(e);
      if (!last || this.#visible.has(last)) return e.type;
    }
    if (e.op === 'variable') {
      this.#need(e, this.#visible.has(e.arg), () => `${e.arg.name} is not declared here`);
      this.#need(e, sameValueType(e.type, e.arg.type), () => `${e.arg.name} is ${formatType(e.arg.type)}`);
    }
    const types = e.src.map((s) => (isMemory(s) ? undefined : this.#expr(e, s)));
    if (!known) this.#rule(e, types);
    this.#checked.set(e, this.#lastIn(e));
    return e.type;
  }

  /** The variable that was declared last, of those in an expression whose operands have been checked. */
  #lastIn(e: Expr): Variable | undefined {
    if (e.op === 'variable') return e.arg;
    let last: Variable | undefined;
    for (const s of e.src) {
      const one = isMemory(s) ? undefined : this.#checked.get(s as Expr);
      if (one && (!last || this.#declared.get(one)! > this.#declared.get(last)!)) last = one;
    }
    return last;
  }

  #rule(e: Expr, types: readonly (Expr['type'] | undefined)[]): void {
    const [a, b, c] = types;
    const { dtype, lanes } = e.type;
    switch (e.op) {
      case 'const': {
        const wanted = dtype === bool ? 'boolean' : dtype.name === 'i64' ? 'bigint' : 'number';
        this.#need(e, typeof e.arg === wanted, () => `${e.arg} is not a value of ${dtype.name}`);
        return;
      }
      case 'param':
        this.#need(
          e,
          this.#ir.params.includes(e.arg) || (this.#addressed && e.arg === SCRATCH),
          () => `${e.arg.name} is not of this kernel`,
        );
        this.#need(
          e,
          dtype === (isBuffer(e.arg.schema) ? this.#addressed && i32 : e.arg.schema),
          () => `${e.arg.name} has another type`,
        );
        return;
      case 'special':
        this.#need(e, dtype === i32, 'is i32');
        return;
      case 'alu': {
        const record: OpRecord = OPS[e.arg];
        const wave = this.#ir.lowered !== undefined && (e.arg === 'sin' || e.arg === 'cos');
        const takes = wave ? types.length === 1 || types.length === 2 : types.length === record.arity;
        this.#need(e, takes, () => `${e.arg} takes ${record.arity} operands`);
        this.#need(
          e,
          types.every((t) => t && sameValueType(t, a!)),
          () => `operands of ${e.arg} differ: ${types.map((t) => formatType(t!))}`,
        );
        const t = a!.dtype;
        this.#need(e, takesOperands(record.operands, t), () => `${e.arg} does not take ${t.name}`);
        this.#need(
          e,
          dtype === (record.result === 'bool' ? bool : t) && lanes === a!.lanes,
          () => `${e.arg} has the type ${formatType(e.type)}`,
        );
        return;
      }
      case 'cast':
        this.#need(e, a !== undefined && a.lanes === lanes, 'keeps the lanes');
        return;
      case 'bitcast':
        if (a !== undefined && lanes === 1 && isPair(dtype, a)) return;
        this.#need(e, a !== undefined && a.lanes === lanes, 'keeps the lanes');
        this.#need(e, a!.dtype.bytes === dtype.bytes, 'keeps the size');
        return;
      case 'select':
        this.#need(e, a?.dtype === bool && (a.lanes === 1 || a.lanes === lanes), 'the condition is a bool');
        this.#need(
          e,
          b !== undefined && c !== undefined && sameValueType(b, e.type) && sameValueType(c, e.type),
          'both sides have its type',
        );
        return;
      case 'vector':
        this.#need(
          e,
          types.length === lanes && types.every((t) => t?.dtype === dtype && t.lanes === 1),
          'a scalar per lane',
        );
        return;
      case 'splat':
        this.#need(e, a?.dtype === dtype && a.lanes === 1 && lanes > 1, 'repeats a scalar');
        return;
      case 'lane':
        this.#need(
          e,
          a?.dtype === dtype && e.arg >= 0 && e.arg < a.lanes && lanes === 1,
          'takes a lane that is there',
        );
        return;
      case 'load': {
        const [memory, ...indices] = e.src;
        this.#place(e, memory, indices);
        this.#need(
          e,
          (memory as MemoryNode).type.dtype === dtype,
          () => `loads from ${formatType((memory as MemoryNode).type)}`,
        );
        this.#lanes(e, memory as MemoryNode, lanes);
        return;
      }
      case 'intrinsic': {
        const record: IntrinsicRecord = INTRINSICS[e.arg];
        if (record.atomic || record.rows || record.remote)
          this.#place(e, e.src[0], e.src.slice(1, e.src.length - record.params.length));
        const t =
          record.atomic || record.rows || record.remote
            ? (e.src[0] as MemoryNode).type.dtype
            : (a?.dtype ?? i32);
        const result = resultOf(e.arg, t);
        this.#need(
          e,
          result !== undefined && sameValueType(result, e.type),
          () => `${e.arg} gives another type`,
        );
        return;
      }
      case 'variable':
        return;
    }
  }
}
