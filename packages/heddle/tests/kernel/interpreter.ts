/** A small interpreter of the kernel IR, one thread at a time: the oracle of the front end's tests. */
import type {
  ArrayDecl,
  Expr,
  KernelIr,
  Node,
  Special,
  Statement,
  Variable,
} from '../../src/kernel/ir/ir.js';
import { convert, evaluate, type Scalar, wrap } from '../../src/kernel/ir/ops.js';

type Value = readonly Scalar[];
export type Arguments = Readonly<Record<string, Scalar | Scalar[]>>;
class Jump {
  readonly to: 'break' | 'continue' | 'return';
  constructor(to: Jump['to']) {
    this.to = to;
  }
}

/** Elements of memory, by their place in row-major order. */
interface Cells {
  readonly read: (i: number) => Scalar;
  readonly at: (i: number) => Value;
  readonly write: (i: number, v: Value) => void;
  /** An element is a vector. */
  readonly wide: boolean;
  readonly dims: readonly number[];
}

/** Run one thread; buffers in `args` are changed. Returns what `print` printed. */
export function interpret(
  ir: KernelIr,
  args: Arguments,
  special: Partial<Record<Special, number>> = {},
): string[] {
  const thread = new Thread(args, special);
  try {
    thread.run(ir.body);
  } catch (jump) {
    if (!(jump instanceof Jump)) throw jump;
  }
  return thread.printed;
}

class Thread {
  readonly printed: string[] = [];
  readonly #args: Arguments;
  readonly #special: Partial<Record<Special, number>>;
  readonly #variables = new Map<Variable, Value>();
  readonly #arrays = new Map<ArrayDecl, Value[]>();
  #steps = 0;

  constructor(args: Arguments, special: Partial<Record<Special, number>>) {
    this.#args = args;
    this.#special = special;
  }

  #memory(node: Node): Cells {
    if (node.op === 'buffer') {
      const data = this.#args[node.arg.name] as Scalar[];
      return {
        read: (i) => data[i]!,
        at: (i) => [data[i]!],
        write: (i, v) =>
          v.forEach((x, k) => {
            data[i + k] = x;
          }),
        wide: false,
        dims: [],
      };
    }
    if (node.op !== 'array') throw new Error(`no memory: ${node.op}`);
    const decl = node.arg;
    let data = this.#arrays.get(decl);
    if (!data) {
      data = [];
      this.#arrays.set(decl, data);
    }
    const cells = data;
    return {
      read: (i) => cells[i]![0]!,
      at: (i) => cells[i]!,
      write: (i, v) => {
        if (decl.lanes > 1) cells[i] = v;
        else
          v.forEach((x, k) => {
            cells[i + k] = [x];
          });
      },
      wide: decl.lanes > 1,
      dims: decl.dims,
    };
  }
  #flat(dims: readonly number[], indices: readonly Node[]): number {
    return indices.reduce((at, node, d) => at * (d === 0 ? 1 : dims[d]!) + Number(this.#expr(node)[0]), 0);
  }

  #expr(node: Node): Value {
    const e = node as Expr;
    const src = e.src as readonly Node[];
    switch (e.op) {
      case 'const':
        return [e.arg];
      case 'param':
        return [this.#args[e.arg.name] as Scalar];
      case 'special':
        return [this.#special[e.arg] ?? (e.arg.includes('Dim') ? 1 : 0)];
      case 'variable': {
        const v = this.#variables.get(e.arg);
        if (!v) throw new Error(`${e.arg.name} is not set`);
        return v;
      }
      case 'alu': {
        const [a, b, c] = src.map((s) => this.#expr(s));
        const t = (src[0] as Expr).type.dtype;
        return a!.map((x, k) => evaluate(e.arg, t, x, b?.[k], c?.[k]));
      }
      case 'cast': {
        const from = (src[0] as Expr).type.dtype;
        return this.#expr(src[0]!).map((x) => convert(from, e.type.dtype, x));
      }
      case 'select': {
        const condition = this.#expr(src[0]!);
        if (condition.length === 1) return this.#expr(condition[0] ? src[1]! : src[2]!);
        const [a, b] = [this.#expr(src[1]!), this.#expr(src[2]!)];
        return condition.map((c, k) => (c ? a[k]! : b[k]!));
      }
      case 'vector':
        return src.map((s) => this.#expr(s)[0]!);
      case 'splat':
        return new Array<Scalar>(e.type.lanes).fill(this.#expr(src[0]!)[0]!);
      case 'lane':
        return [this.#expr(src[0]!)[e.arg]!];
      case 'load': {
        const m = this.#memory(src[0]!);
        const i = this.#flat(m.dims, src.slice(1));
        return m.wide ? m.at(i) : Array.from({ length: e.type.lanes }, (_, k) => m.read(i + k));
      }
      case 'intrinsic': {
        if (e.arg !== 'atomicAdd') throw new Error(`not interpreted: ${e.arg}`);
        const m = this.#memory(src[0]!);
        const i = this.#flat(m.dims, src.slice(1, -1));
        const old = m.read(i);
        m.write(i, [evaluate('add', e.type.dtype, old, this.#expr(src.at(-1)!)[0]!)]);
        return [old];
      }
      default:
        throw new Error(`not interpreted: ${e.op}`);
    }
  }

  /** A loop's body; whether the loop goes on. */
  #turn(body: Node): boolean {
    if (++this.#steps > 100_000) throw new Error('the loop does not end');
    try {
      this.run(body as Statement);
    } catch (jump) {
      if (!(jump instanceof Jump) || jump.to === 'return') throw jump;
      return jump.to === 'continue';
    }
    return true;
  }

  run(node: Statement): void {
    const src = node.src as readonly Node[];
    switch (node.op) {
      case 'block':
        for (const s of src) this.run(s as Statement);
        return;
      case 'let':
      case 'set':
        this.#variables.set(node.arg, this.#expr(src[0]!));
        return;
      case 'store': {
        const m = this.#memory(src[0]!);
        const i = this.#flat(m.dims, src.slice(2));
        m.write(i, this.#expr(src[1]!));
        return;
      }
      case 'if':
        if (this.#expr(src[0]!)[0]) this.run(src[1] as Statement);
        else if (src[2]) this.run(src[2] as Statement);
        return;
      case 'for': {
        const [start, end, step] = src.slice(0, 3).map((s) => this.#expr(s)[0]!);
        const { variable } = node.arg;
        for (let i = start!; i < end!; i = wrap(variable.type.dtype, (i as number) + (step as number))) {
          this.#variables.set(variable, [i]);
          if (!this.#turn(src[3]!)) return;
        }
        return;
      }
      case 'while':
        while (this.#expr(src[0]!)[0]) {
          if (!this.#turn(src[1]!)) return;
          this.run(src[2] as Statement);
        }
        return;
      case 'break':
      case 'continue':
      case 'return':
        throw new Jump(node.op);
      case 'effect':
        if (src[0]) this.#expr(src[0]);
        return;
      case 'assert':
        if (!this.#expr(src[0]!)[0]) throw new Error(node.arg);
        return;
      case 'print': {
        const values = src.map((s) => this.#expr(s));
        this.printed.push(node.arg.replaceAll('{}', () => values.shift()!.join(',')));
      }
    }
  }
}
