/** Statements in WebAssembly. */
import type { Expr, Statement } from '../../kernel/ir/ir.js';
import type { ValueType } from '../../kernel/ir/types.js';
import type { Message } from '../message.js';
import { FAILURE, PRINT_BYTES, PRINT_HEAD, PRINT_RING } from './abi.js';
import type { Label } from './encode.js';
import type { WasmExpressions } from './expressions.js';
import { store, update } from './memory.js';
import { laneType, unsupported } from './values.js';

interface Loop {
  readonly exit: Label;
  readonly next: Label;
}

export class Statements {
  readonly #x: WasmExpressions;
  readonly #kernel: string;
  readonly #messages: Message[];
  readonly #end: Label;
  readonly #loops: Loop[] = [];

  /** @param end where `return` goes */
  constructor(x: WasmExpressions, kernel: string, messages: Message[], end: Label) {
    this.#x = x;
    this.#kernel = kernel;
    this.#messages = messages;
    this.#end = end;
  }

  emit(s: Statement): void {
    const x = this.#x;
    const { f } = x;
    switch (s.op) {
      case 'block':
        for (const c of s.src) this.emit(c as Statement);
        return;
      case 'let':
      case 'set':
        x.into(s.src[0] as Expr, x.variable(s.arg));
        return;
      case 'store':
        store(x, s);
        return;
      case 'update':
        update(x, s);
        return;
      case 'if': {
        const [condition, then, otherwise] = s.src;
        x.push(condition as Expr);
        f.when(
          () => this.emit(then as Statement),
          otherwise ? () => this.emit(otherwise as Statement) : undefined,
        );
        return;
      }
      case 'for':
        this.#counted(s);
        return;
      case 'while':
        this.#conditional(s);
        return;
      case 'break':
        f.branch(this.#loops[this.#loops.length - 1]!.exit);
        return;
      case 'continue':
        f.branch(this.#loops[this.#loops.length - 1]!.next);
        return;
      case 'return':
        f.branch(this.#end);
        return;
      case 'effect':
        // A block is one thread, and its copies are made at once.
        if (s.arg === 'barrier' || s.arg === 'commitCopies' || s.arg === 'waitCopies') return;
        if (s.arg) unsupported(s.arg, s.at);
        x.push(s.src[0] as Expr);
        f.op('drop');
        return;
      case 'assert':
        this.#assertion(s);
        return;
      case 'print':
        this.#print(s);
        return;
    }
  }

  #counted(s: Extract<Statement, { op: 'for' }>): void {
    const x = this.#x;
    const { f } = x;
    const [start, end, step, body] = s.src as [Expr, Expr, Expr, Statement];
    const { variable } = s.arg;
    const type = laneType(variable.type.dtype) === 'i64' ? 'i64' : 'i32';
    const less = variable.type.dtype.kind === 'uint' ? (`${type}.lt_u` as const) : (`${type}.lt_s` as const);
    const fixed = (e: Expr): (() => void) => {
      if (e.op === 'const' || e.op === 'param') return () => x.push(e);
      const kept = x.keep(e);
      return () => f.get(kept);
    };
    const limit = fixed(end);
    const by = fixed(step);
    const [counter] = x.variable(variable);
    x.push(start);
    f.set(counter!);
    const test = (): void => {
      f.get(counter!);
      limit();
      f.op(less);
    };
    test();
    f.when(() =>
      f.block('exit', (exit) =>
        f.loop('loop', (again) => {
          f.block('next', (next) => {
            this.#loops.push({ exit, next });
            this.emit(body);
            this.#loops.pop();
          });
          f.get(counter!);
          by();
          f.op(`${type}.add`);
          f.set(counter!);
          test();
          f.branch(again, 'br_if');
        }),
      ),
    );
  }

  #conditional(s: Extract<Statement, { op: 'while' }>): void {
    const x = this.#x;
    const { f } = x;
    const [condition, body, update] = s.src as [Expr, Statement, Statement];
    f.block('exit', (exit) =>
      f.loop('loop', (again) => {
        if (condition.op !== 'const' || !condition.arg) {
          x.push(condition);
          f.op('i32.eqz');
          f.branch(exit, 'br_if');
        }
        f.block('next', (next) => {
          this.#loops.push({ exit, next });
          this.emit(body);
          this.#loops.pop();
        });
        this.emit(update);
        f.branch(again);
      }),
    );
  }

  /** Leaves the message's number and traps; the device makes an error of it. */
  #assertion(s: Extract<Statement, { op: 'assert' }>): void {
    const x = this.#x;
    const { f } = x;
    this.#messages.push({ kind: 'assert', kernel: this.#kernel, text: s.arg, at: s.at, values: [] });
    x.push(s.src[0] as Expr);
    f.op('i32.eqz');
    f.when(() => {
      f.i32(0);
      f.i32(this.#messages.length);
      f.op('i32.atomic.store', undefined, FAILURE);
      f.op('unreachable');
    });
  }

  /** Reserves a record in the ring and fills it, if there is room. */
  #print(s: Extract<Statement, { op: 'print' }>): void {
    const x = this.#x;
    const { f } = x;
    const sources = s.src as readonly Expr[];
    const values = sources.map((e) => e.type);
    const slots = values.reduce((n, t) => n + t.lanes, 0);
    const bytes = 8 + 8 * slots;
    this.#messages.push({ kind: 'print', kernel: this.#kernel, text: s.arg, at: s.at, values });
    const at = f.local('record', 'i32');
    f.i32(0);
    f.i32(bytes);
    f.op('i32.atomic.rmw.add', undefined, PRINT_HEAD);
    f.tee(at);
    f.i32(PRINT_BYTES - bytes);
    f.op('i32.le_u');
    f.when(() => {
      f.get(at);
      f.i32(this.#messages.length);
      f.op('i32.store', undefined, PRINT_RING);
      let slot = 0;
      for (const e of sources) {
        const held = x.locals('printed', e.type);
        x.into(e, held);
        for (let lane = 0; lane < e.type.lanes; lane++) {
          f.get(at);
          f.get(held[held.length > 1 ? lane : 0]!);
          if (e.type.lanes > 1 && held.length === 1) x.extract(e.type.dtype, lane);
          this.#printed(e.type);
          f.op(
            laneType(e.type.dtype) === 'i64' ? 'i64.store' : 'f64.store',
            undefined,
            PRINT_RING + 8 + 8 * slot++,
          );
        }
      }
    });
  }

  /** [value] → what the record holds of it. */
  #printed({ dtype }: ValueType): void {
    const { f } = this.#x;
    switch (laneType(dtype)) {
      case 'f32':
        f.op('f64.promote_f32');
        return;
      case 'i32':
        f.op(dtype.name === 'i32' ? 'f64.convert_i32_s' : 'f64.convert_i32_u');
        return;
      default:
        return;
    }
  }
}
