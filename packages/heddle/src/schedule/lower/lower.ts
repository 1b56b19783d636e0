/**
 * Generic lowering: a group of nodes → one kernel. Right on every device: the CPU ('blocks') gets loops over vectors
 * of 4; how a GPU ('threads') shares out the elements, rows or columns of a group is elements.ts, rows.ts, columns.ts and
 * strips.ts.
 */

import { anySizeBody } from '#schedule/any-size.js';
import { chainBody } from '#schedule/chain.js';
import { stripsBody } from '#schedule/strips.js';
import type { GraphNode } from '../../graph/node.js';
import type { Expr, MemoryNode, Param, Statement } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import type { Target } from '../../kernel/ir/target.js';
import type { Group } from '../group.js';
import { columnsBody } from './columns.js';
import { type Digit, type LoopAxis, loopSizes } from './coordinates.js';
import { elementsBody } from './elements.js';
import type { LoopScope } from './evaluate.js';
import {
  type AnySizeForm,
  type Body,
  below,
  type LoweredGroup,
  loopDigit,
  Memories,
  parameter,
  scopeOf,
  storeAll,
  variable,
} from './lowering.js';
import { rowsBody } from './rows.js';
import { type Survey, survey } from './survey.js';

/** Elementary operations that are worth a block of their own on the CPU. */
const BLOCK_WORK = 16384;

/** Lower a group; nodes for which `hasMemory` holds are read, all others computed here. */
export function lowerGroup(
  name: string,
  { roots, reduction, chain, spreads = [], regions }: Group,
  hasMemory: (node: GraphNode) => boolean,
  target: Target,
): LoweredGroup {
  const own = new Set(roots);
  const memories = new Memories((node) => hasMemory(node) && !own.has(node), regions);
  const outputs = roots.map((root, i) => parameter(`y${i}`, root));
  let anySize: AnySizeForm | undefined;
  const body = (): Body => {
    if (chain) return chainBody(roots, outputs, { ...chain, spreads }, memories);
    if (reduction) {
      const isAgain = reduction.members.some(({ per }) => per === 'element');
      const ofColumns = isAgain ? stripsBody : columnsBody;
      const lower = reduction.structure.contiguous ? rowsBody : ofColumns;
      return lower(roots, outputs, reduction, memories, target);
    }
    const axis: LoopAxis = { size: roots[0]!.size, splits: new Set() };
    const shape = survey(roots, axis, memories);
    if (target.model === 'threads' && !regions) {
      const scope = { ...scopeOf(memories, false), aligned: true };
      // Once: all groups that are alike have it.
      let lowered: ReturnType<AnySizeForm['lower']> | 'not yet' = 'not yet';
      const lower = () => {
        if (lowered === 'not yet') lowered = anySizeBody(roots, outputs, axis, scope, shape);
        return lowered;
      };
      anySize = { elements: axis.size, lower };
    }
    const lower = target.model === 'threads' ? elementsBody : blocksBody;
    return lower(roots, outputs, axis, memories, shape, target);
  };
  const { statement, arrays = [], resident, ...sizes } = body();
  const params = [...memories.reads.values(), ...outputs].map((m) => m.arg as Param);
  return {
    ir: { name, params, arrays, body: statement, ...(resident && { resident }) },
    params: [...memories.reads.keys(), ...roots],
    ...sizes,
    anySize,
  };
}

/**
 * Rows of the outer loops × the innermost loop. Blocks take whole rows where there are enough of them, else pieces
 * of a row.
 */
function blocksBody(
  roots: readonly GraphNode[],
  outputs: readonly MemoryNode[],
  axis: LoopAxis,
  memories: Memories,
  shape: Survey,
  target: Target,
): Body {
  const sizes = loopSizes(axis);
  const inner = sizes.at(-1)!;
  const rows = axis.size / inner;
  const blocks = Math.max(1, Math.min(target.units * 16, Math.ceil((axis.size * shape.work) / BLOCK_WORK)));
  const rowsPerBlock = Math.max(1, Math.ceil(rows / blocks));
  const pieces = rows >= blocks ? 1 : Math.min(Math.ceil(blocks / rows), Math.ceil(inner / 16));
  const piece = pieces === 1 ? inner : Math.ceil(inner / pieces / 16) * 16;
  const perRow = Math.ceil(inner / piece);
  const scope = scopeOf(memories, shape.inner);

  const row = variable('row');
  const digits: Digit[] = [];
  const cut: Statement[] = [];
  sizes.slice(0, -1).forEach((size, n, outer) => {
    const under = below(outer, n);
    let v: Expr = k.read(row);
    if (under > 1) v = k.alu('idiv', [v, k.int(under)]);
    if (n > 0) v = k.alu('mod', [v, k.int(size)]);
    const digit = variable(`i${n}`);
    cut.push(k.declare(digit, v));
    digits.push(loopDigit(axis, digit, size, below(sizes, n)));
  });

  const block = k.special('blockIdx.x');
  const from = variable('from');
  const to = variable('to');
  const last = perRow * piece === inner;
  const span: Statement[] =
    perRow === 1
      ? []
      : [
          k.declare(from, k.alu('mul', [k.alu('mod', [block, k.int(perRow)]), k.int(piece)])),
          k.declare(
            to,
            last
              ? k.alu('add', [k.read(from), k.int(piece)])
              : k.alu('min', [k.alu('add', [k.read(from), k.int(piece)]), k.int(inner)]),
          ),
        ];
  const begin = perRow === 1 ? k.int(0) : k.read(from);
  const end = perRow === 1 ? k.int(inner) : k.read(to);
  const line = k.block([
    ...cut,
    ...span,
    ...innerLoops(roots, outputs, axis, digits, inner, begin, end, perRow === 1, scope, shape.outer),
  ]);

  const first = variable('first');
  const blockRow = perRow === 1 ? block : k.alu('idiv', [block, k.int(perRow)]);
  if (rowsPerBlock === 1)
    return {
      statement: k.block([k.declare(row, blockRow), line]),
      grid: [rows * perRow, 1, 1],
      block: [1, 1, 1],
    };
  const stop =
    rows % rowsPerBlock === 0
      ? k.alu('add', [k.read(first), k.int(rowsPerBlock)])
      : k.alu('min', [k.alu('add', [k.read(first), k.int(rowsPerBlock)]), k.int(rows)]);
  return {
    statement: k.block([
      k.declare(first, k.alu('mul', [blockRow, k.int(rowsPerBlock)])),
      k.forLoop(row, k.read(first), stop, k.int(1), line),
    ]),
    grid: [Math.ceil(rows / rowsPerBlock) * perRow, 1, 1],
    block: [1, 1, 1],
  };
}

/** The innermost loop: by vectors of 4, then what is left one by one. */
function innerLoops(
  roots: readonly GraphNode[],
  outputs: readonly MemoryNode[],
  axis: LoopAxis,
  outer: readonly Digit[],
  size: number,
  begin: Expr,
  end: Expr,
  whole: boolean,
  scope: LoopScope,
  vectors: boolean,
): Statement[] {
  const loop = (from: Expr, to: Expr, step: 1 | 4): Statement => {
    const v = variable('i');
    const digit = loopDigit(axis, v, Math.max(2, size), 1);
    const at = [...outer, { ...digit, size }];
    return k.forLoop(v, from, to, k.int(step), storeAll(roots, outputs, at, scope, step));
  };
  if (!vectors) return [loop(begin, end, 1)];
  if (whole) {
    const even = size - (size % 4);
    return even === size ? [loop(begin, end, 4)] : [loop(begin, k.int(even), 4), loop(k.int(even), end, 1)];
  }
  // Pieces start at multiples of 16; only the last of a row can be uneven.
  const even = variable('even');
  const count = k.alu('and', [k.alu('sub', [end, begin]), k.int(-4)]);
  return size % 4 === 0
    ? [loop(begin, end, 4)]
    : [
        k.declare(even, k.alu('add', [begin, count])),
        loop(begin, k.read(even), 4),
        loop(k.read(even), end, 1),
      ];
}
