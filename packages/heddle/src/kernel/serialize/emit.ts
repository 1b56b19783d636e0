/** The parts of a split kernel as one kernel without threads. */
import { i32 } from '../../core/dtype.js';
import { rewrite } from '../../core/rewrite.js';
import {
  type ArrayDecl,
  alu,
  arrayNode,
  block,
  declare,
  type Expr,
  forLoop,
  int,
  load,
  type MemoryNode,
  type Node,
  read,
  type Special,
  type Statement,
  store,
  type Variable,
} from '../ir/ir.js';
import { value } from '../ir/types.js';
import { returns, withoutReturns } from './returns.js';
import { type KernelPiece, partsOf } from './split.js';
import { isWarpOperation, warpLoops } from './warp.js';

type Size = readonly [number, number, number];

/** Where a statement runs: in the loops over the threads (an index expression per axis), or once per block. */
interface RunSite {
  readonly axes: readonly Expr[];
  /** The thread, counted within its block. */
  linear(): Expr;
}

const counter = (name: string): Variable => ({ name, type: value(i32), constant: true });

export class Emitter {
  /** Arrays of the threads, in place of variables and of `replaced` local arrays. */
  readonly arrays: ArrayDecl[] = [];
  readonly replaced: ReadonlyMap<ArrayDecl, ArrayDecl>;
  readonly #size: Size;
  readonly #threads: number;
  readonly #slots = new Map<Variable, ArrayDecl>();

  /**
   * @param variables that a thread keeps from one region to another
   * @param arrays local arrays that it keeps
   */
  constructor(size: Size, variables: ReadonlySet<Variable>, arrays: ReadonlySet<ArrayDecl>) {
    this.#size = size;
    this.#threads = size[0] * size[1] * size[2];
    const dims = [this.#threads];
    for (const { name, type } of variables) {
      this.arrays.push({ name, dtype: type.dtype, space: 'local', dims, lanes: type.lanes });
    }
    [...variables].forEach((v, i) => {
      this.#slots.set(v, this.arrays[i]!);
    });
    this.replaced = new Map([...arrays].map((a) => [a, { ...a, dims: [this.#threads, ...a.dims] }]));
    this.arrays.push(...this.replaced.values());
  }

  emit(pieces: readonly KernelPiece[]): Statement[] {
    return pieces.map((piece) => this.#part(piece));
  }

  #part(piece: KernelPiece): Statement {
    switch (piece.kind) {
      case 'region':
        return this.#overThreads(piece.statements);
      case 'once':
        return this.#place(piece.statement, undefined);
      case 'warp':
        return this.#warp(piece.statement);
      case 'around': {
        const decides = partsOf(piece.statement).decides.map((e) => this.#place(e, undefined));
        const blocks = piece.inside.map((inside) => block(this.emit(inside)));
        return { ...piece.statement, src: [...decides, ...blocks] };
      }
    }
  }

  /** The loops over the threads of a block, x innermost, around what each of them does. */
  #overThreads(statements: readonly Statement[]): Statement {
    const counters = [counter('tx'), counter('ty'), counter('tz')];
    const axes = counters.map((v, axis) => (this.#size[axis] === 1 ? int(0) : read(v)));
    const thread = counter('thread');
    const [x, y] = this.#size;
    const flat = this.#threads === x;
    let counted = false;
    const place: RunSite = {
      axes,
      linear: () => {
        if (flat) return axes[0]!;
        counted = true;
        return read(thread);
      },
    };
    const body = (statements.some(returns) ? withoutReturns(statements) : statements).map((s) =>
      this.#place(s, place),
    );
    const index = alu('add', [
      alu('mul', [alu('add', [alu('mul', [axes[2]!, int(y)]), axes[1]!]), int(x)]),
      axes[0]!,
    ]);
    let nest = block(counted ? [declare(thread, index), ...body] : body);
    counters.forEach((v, axis) => {
      const size = this.#size[axis]!;
      if (size > 1) nest = forLoop(v, int(0), int(size), int(1), axis === 0 ? nest : block([nest]));
    });
    return nest;
  }

  #warp(s: Extract<Statement, { op: 'let' }>): Statement {
    const operation = s.src[0];
    if (!isWarpOperation(operation)) return s;
    const at = (thread: Expr): RunSite => ({ axes: [], linear: () => thread });
    const result = arrayNode(this.#slots.get(s.arg)!);
    return warpLoops(operation.arg, {
      threads: this.#threads,
      argument: (index, thread) => this.#place(operation.src[index] as Expr, at(thread)),
      result: (thread) => load(result, [thread]),
      setResult: (thread, v) => store(result, v, [thread]),
    });
  }

  /** `root` as it reads in its place: thread indices, sizes, and what threads keep in arrays. */
  #place<N extends Node>(root: N, place: RunSite | undefined): N {
    return rewrite<Node>(root, (n) => {
      switch (n.op) {
        case 'special':
          return this.#special(n.arg, place);
        case 'variable': {
          const slot = this.#slots.get(n.arg);
          return slot && load(arrayNode(slot, n.at), [place!.linear()], 1, n.at);
        }
        case 'let':
        case 'set': {
          const slot = this.#slots.get(n.arg);
          return slot && store(arrayNode(slot, n.at), n.src[0] as Expr, [place!.linear()], n.at);
        }
        case 'array': {
          const own = this.replaced.get(n.arg);
          return own && arrayNode(own, n.at);
        }
        case 'load':
        case 'intrinsic':
          return this.#ofThread(n.src[0]) ? { ...n, src: n.src.toSpliced(1, 0, place!.linear()) } : undefined;
        case 'store':
          return this.#ofThread(n.src[0]) ? { ...n, src: n.src.toSpliced(2, 0, place!.linear()) } : undefined;
        default:
          return undefined;
      }
    }) as N;
  }

  /** Whether memory, as it reads in its place, is a local array with one part per thread. */
  #ofThread(memory: Node | undefined): boolean {
    if (memory?.op !== 'array') return false;
    return [...this.replaced.values()].includes((memory as MemoryNode & { op: 'array' }).arg);
  }

  #special(name: Special, place: RunSite | undefined): Expr | undefined {
    const axis = 'xyz'.indexOf(name.at(-1)!);
    if (name.startsWith('blockDim')) return int(this.#size[axis]!);
    if (name.startsWith('threadIdx')) return place!.axes[axis]!;
    if (name === 'laneId') return alu('and', [place!.linear(), int(31)]);
    if (name === 'warpId') return alu('shr', [place!.linear(), int(5)]);
    return undefined;
  }
}
