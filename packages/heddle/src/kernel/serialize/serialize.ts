/**
 * User kernels for a device without threads: a kernel for blocks of many threads becomes one for blocks of one, with
 * loops over the threads between any two barriers ("loop fission"). What a thread keeps across a barrier becomes an
 * array with an element per thread; what all threads agree on stays one variable.
 *
 *     s[t] = x[t]; barrier(); y[t] = s[t ^ 1];      →      for t: s[t] = x[t];   for t: y[t] = s[t ^ 1];
 *
 * Launch the result with the same grid and a block of [1, 1, 1]. Threads of a block run in order, so a race that
 * the simulator would find is not seen here.
 */
import { KernelError } from '../../core/errors.js';
import { find, preorder } from '../../core/node.js';
import {
  type ArrayDecl,
  block,
  isOfCluster,
  type KernelIr,
  type Node,
  read,
  type Variable,
} from '../ir/ir.js';
import { uniformity } from '../ir/uniform.js';
import { Emitter } from './emit.js';
import { type KernelPiece, partsOf, split, Unsplittable } from './split.js';
import { type Obstacle, separateWarpOperations, waits } from './warp.js';

/** A kernel cannot run without threads. */
export class NotSerialized extends KernelError {
  /** Why; for people. */
  readonly reason: string;

  constructor(kernel: string, reason: string) {
    super(`[${kernel}] ${reason}`);
    this.reason = reason;
  }
}

/**
 * `ir` for blocks of `size` threads, as a kernel for blocks of one thread. It can be split where the control flow
 * around barriers and warp operations is the same for all threads of the block.
 * @throws NotSerialized where it is not
 */
export function serialize(ir: KernelIr, size: readonly [number, number, number]): KernelIr {
  try {
    const obstacles: Obstacle[] = [];
    const body = separateWarpOperations(ir.body, obstacles);
    if (obstacles[0]) throw new Unsplittable(obstacles[0].why, obstacles[0].node);
    const ofCluster = find<Node>([body], isOfCluster);
    if (ofCluster) throw new Unsplittable('its blocks work together in clusters', ofCluster);
    const uniform = uniformity(body);
    const shared = new Set<Variable>();
    let pieces: KernelPiece[];
    let crossing: Set<Variable>;
    let known: number;
    // Setting a variable of the block ends a region, and with more regions more variables may cross.
    do {
      known = shared.size;
      pieces = waits(body) ? split(body, shared, uniform) : [{ kind: 'region', statements: [body] }];
      crossing = variablesAcross(pieces);
      for (const v of crossing) if (uniform(read(v))) shared.add(v);
    } while (shared.size > known);
    for (const v of shared) crossing.delete(v);
    const emitter = new Emitter(size, crossing, arraysAcross(pieces));
    const arrays = [...ir.arrays.filter((a) => !emitter.replaced.has(a)), ...emitter.arrays];
    return { ...ir, arrays, body: block(emitter.emit(pieces)) };
  } catch (error) {
    throw error instanceof Unsplittable ? new NotSerialized(ir.name, error.reason) : error;
  }
}

/** Variables that outlive a region, or are used outside of any. */
function variablesAcross(pieces: readonly KernelPiece[]): Set<Variable> {
  const crossing = new Set<Variable>();
  const owner = new Map<Variable, KernelPiece>();
  const walk = (root: Node, piece: KernelPiece): void => {
    for (const n of preorder([root])) {
      if (n.op === 'variable' || n.op === 'let' || n.op === 'set') note(n.arg, piece);
      if (n.op === 'for') note(n.arg.variable, piece);
    }
  };
  const note = (v: Variable, piece: KernelPiece): void => {
    if (piece.kind !== 'region' || (owner.get(v) ?? piece) !== piece) crossing.add(v);
    owner.set(v, piece);
  };
  const visit = (list: readonly KernelPiece[]): void => {
    for (const piece of list) {
      if (piece.kind === 'region') for (const s of piece.statements) walk(s, piece);
      else if (piece.kind === 'around') {
        for (const e of partsOf(piece.statement).decides) walk(e, piece);
        if (piece.statement.op === 'for') note(piece.statement.arg.variable, piece);
        for (const inside of piece.inside) visit(inside);
      } else walk(piece.statement, piece);
    }
  };
  visit(pieces);
  return crossing;
}

/** Local arrays that outlive a region, or one round of a loop around it. */
function arraysAcross(pieces: readonly KernelPiece[]): Set<ArrayDecl> {
  const crossing = new Set<ArrayDecl>();
  const owner = new Map<ArrayDecl, KernelPiece>();
  const walk = (root: Node, piece: KernelPiece, inLoop: boolean): void => {
    for (const n of preorder([root])) {
      if (n.op !== 'array' || n.arg.space !== 'local') continue;
      if (inLoop || (owner.get(n.arg) ?? piece) !== piece) crossing.add(n.arg);
      owner.set(n.arg, piece);
    }
  };
  const visit = (list: readonly KernelPiece[], inLoop: boolean): void => {
    for (const piece of list) {
      if (piece.kind === 'region') for (const s of piece.statements) walk(s, piece, inLoop);
      if (piece.kind !== 'around') continue;
      for (const inside of piece.inside) visit(inside, inLoop || piece.statement.op !== 'if');
    }
  };
  visit(pieces, false);
  return crossing;
}
