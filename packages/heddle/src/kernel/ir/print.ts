/** A kernel as readable pseudo-code: for snapshots and HEDDLE_DEBUG=5. */
import type { ArrayDecl, Expr, KernelIr, Lowered, MemoryNode, Node, Statement, Variable } from './ir.js';
import { OPS, type Scalar, type ScalarOp } from './ops.js';
import { formatType } from './types.js';

/** The text of a kernel: one statement a line, blocks indented. The same kernel always gives the same text. */
export function printKernel(ir: KernelIr): string {
  const names = new UniqueNames();
  const params = ir.params.map(
    ({ name, schema }) =>
      `${names.reserve(name)}: ${schema.kind === 'buffer' ? `${schema.dtype.name}[]` : schema.name}`,
  );
  const arrays = ir.arrays.map((a) => `  ${a.space} ${names.of(a)}: ${elementType(a)}`);
  const printer = new Printer(names);
  const once = ir.lowered ? printer.once(ir.lowered) : [];
  const lists = ir.lists === undefined ? '' : ` × ${ir.lists}`;
  const head = `kernel ${ir.name}(${params.join(', ')})${lists}`;
  return `${[head, ...arrays, ...once, ...printer.block(ir.body, 1)].join('\n')}\n`;
}

const elementType = ({ dtype, lanes, dims }: ArrayDecl): string =>
  `${dtype.name}${lanes > 1 ? `x${lanes}` : ''}${dims.map((d) => `[${d < 0 ? '' : d}]`).join('')}`;

/** Names, made unique: a second `i` is `i_2`. */
class UniqueNames {
  readonly #names = new Map<Variable | ArrayDecl, string>();
  readonly #taken = new Map<string, number>();

  reserve(name: string): string {
    const count = (this.#taken.get(name) ?? 0) + 1;
    this.#taken.set(name, count);
    return count > 1 ? `${name}_${count}` : name;
  }

  of(named: Variable | ArrayDecl): string {
    let name = this.#names.get(named);
    if (name === undefined) {
      name = this.reserve(named.name);
      this.#names.set(named, name);
    }
    return name;
  }
}

class Printer {
  readonly #names: UniqueNames;
  constructor(names: UniqueNames) {
    this.#names = names;
  }

  once({ once, scratchBytes }: Lowered): string[] {
    const bytes = scratchBytes === undefined ? [] : [`  scratch ${scratchBytes} bytes`];
    return once.src.length > 0 ? [...bytes, '  once', ...this.block(once, 2), '  per block'] : bytes;
  }

  block(node: Node, depth: number): string[] {
    if (node.op !== 'block') return this.statement(node as Statement, depth);
    return node.src.flatMap((s) => this.statement(s as Statement, depth));
  }

  statement(node: Statement, depth: number): string[] {
    const pad = '  '.repeat(depth);
    const [a, b, c, d] = node.src as readonly Expr[];
    switch (node.op) {
      case 'block':
        return [`${pad}{`, ...this.block(node, depth + 1), `${pad}}`];
      case 'let': {
        const word = node.arg.constant ? 'const' : 'let';
        const initial = this.expr(a!);
        return [`${pad}${word} ${this.#names.of(node.arg)}: ${formatType(node.arg.type)} = ${initial}`];
      }
      case 'set':
        return [`${pad}${this.#names.of(node.arg)} = ${this.expr(a!)}`];
      case 'store': {
        const [memory, value, ...indices] = node.src;
        const wide =
          (value as Expr).type.lanes > 1 && memory!.op === 'buffer' ? `:${(value as Expr).type.lanes}` : '';
        return [
          `${pad}${this.#place(memory as MemoryNode, indices as Expr[], wide)} = ${this.expr(value as Expr)}`,
        ];
      }
      case 'update': {
        const [memory, value, ...place] = node.src;
        const at = this.#place(memory as MemoryNode, place as Expr[], '');
        return [
          `${pad}let ${this.#names.of(node.arg)}: ${formatType(node.arg.type)} = update ${at} to ${this.expr(value!)}`,
        ];
      }
      case 'if': {
        const lines = [`${pad}if ${this.expr(a!)}`, ...this.block(b!, depth + 1)];
        return c ? [...lines, `${pad}else`, ...this.block(c, depth + 1)] : lines;
      }
      case 'for': {
        const range = `${this.expr(a!)} to ${this.expr(b!)} step ${this.expr(c!)}`;
        const unroll = { true: ' unroll', false: '', never: ' loop', rolled: ' rolled' }[
          `${node.arg.unroll}`
        ];
        return [
          `${pad}for ${this.#names.of(node.arg.variable)} from ${range}${unroll}`,
          ...this.block(d!, depth + 1),
        ];
      }
      case 'while': {
        const lines = [`${pad}while ${this.expr(a!)}`, ...this.block(b!, depth + 1)];
        return c!.src.length > 0 ? [...lines, `${pad}then`, ...this.block(c!, depth + 1)] : lines;
      }
      case 'break':
      case 'continue':
      case 'return':
        return [`${pad}${node.op}`];
      case 'effect':
        return [`${pad}${node.arg ? `${node.arg}(${a ? this.expr(a) : ''})` : this.expr(a!)}`];
      case 'assert':
        return [`${pad}assert ${this.expr(a!)}, ${JSON.stringify(node.arg)}`];
      case 'print':
        return [
          `${pad}print ${[JSON.stringify(node.arg), ...node.src.map((s) => this.expr(s as Expr))].join(', ')}`,
        ];
    }
  }

  expr(node: Node, inside = false): string {
    const src = node.src as readonly Expr[];
    switch (node.op) {
      case 'const':
        return scalar(node.arg, node.type.dtype.kind === 'float');
      case 'param':
      case 'buffer':
        return node.arg.name;
      case 'special':
        return node.arg;
      case 'variable':
      case 'array':
        return this.#names.of(node.arg);
      case 'alu':
        return this.#alu(node.arg, src, inside);
      case 'cast':
        return `${node.type.dtype.name}(${this.expr(src[0]!)})`;
      case 'bitcast':
        return `bitcast(${node.type.dtype.name}, ${this.expr(src[0]!)})`;
      case 'select': {
        const text = `${this.expr(src[0]!, true)} ? ${this.expr(src[1]!, true)} : ${this.expr(src[2]!, true)}`;
        return inside ? `(${text})` : text;
      }
      case 'vector':
        return `vec${src.length}(${src.map((s) => this.expr(s)).join(', ')})`;
      case 'splat':
        return `splat${node.type.lanes}(${this.expr(src[0]!)})`;
      case 'lane':
        return `lane(${this.expr(src[0]!)}, ${node.arg})`;
      case 'load': {
        const [memory, ...indices] = node.src;
        const wide =
          node.type.lanes > 1 && !(memory!.op === 'array' && (memory as { arg: ArrayDecl }).arg.lanes > 1);
        return this.#place(memory as MemoryNode, indices as Expr[], wide ? `:${node.type.lanes}` : '');
      }
      case 'intrinsic':
        return `${node.arg}(${src.map((s) => this.expr(s)).join(', ')})`;
      default:
        return node.op;
    }
  }

  /** `x[i]`; `x[i:4]` for four elements from i on. */
  #place(memory: MemoryNode, indices: readonly Expr[], wide: string): string {
    const last = indices.length - 1;
    return `${this.expr(memory)}${indices.map((i, at) => `[${this.expr(i)}${at === last ? wide : ''}]`).join('')}`;
  }

  #alu(op: ScalarOp, src: readonly Expr[], inside: boolean): string {
    const bool = src[0]!.type.dtype.name === 'bool';
    const syntax = op === 'not' && bool ? '!a' : OPS[op].syntax;
    const call = syntax.includes('(');
    const text = syntax.replace(/\b[abc]\b/g, (name) => this.expr(src['abc'.indexOf(name)]!, !call));
    return inside && !call ? `(${text})` : text;
  }
}

function scalar(v: Scalar, float: boolean): string {
  if (typeof v !== 'number') return String(v);
  if (Object.is(v, -0)) return '-0.0';
  return float && Number.isInteger(v) && Math.abs(v) < 1e21 ? `${v}.0` : String(v);
}
