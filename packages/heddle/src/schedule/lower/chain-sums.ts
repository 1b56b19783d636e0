/** Sums that the threads of a team share, in a chain (chain.ts): each takes every so-manieth term, and shuffles put them together. */
import type { GraphNode } from '../../graph/node.js';
import type { Expr, Statement } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import type { Lanes } from '../../kernel/ir/types.js';
import { Accumulation, identityOf, MOST_TERMS, opOf } from './accumulate.js';
import { add, declared, lessThan, times, variable } from './lowering.js';

export const quotient = (a: Expr, by: number): Expr => (by === 1 ? a : k.alu('idiv', [a, k.int(by)]));
export const remainder = (a: Expr, by: number): Expr => (by === 1 ? k.int(0) : k.alu('mod', [a, k.int(by)]));

/** Threads that share a sum. */
export interface Team {
  readonly size: number;
  /** The number of a thread in it. */
  readonly member: Expr;
}

/** Terms of a sum, or as many neighbouring ones together as there are lanes. */
export interface Terms {
  readonly count: number;
  readonly lanes: Lanes;
  readonly at: (number: Expr, out: Statement[]) => Expr;
}

/** Turns of the inner loop of two, so that each accumulator takes as many terms; all of them if there is no such number. */
function evenly(turns: number): number {
  if (turns <= MOST_TERMS) return turns;
  const fitting = Array.from({ length: MOST_TERMS }, (_, i) => MOST_TERMS - i).find((n) => turns % n === 0)!;
  return fitting >= MOST_TERMS / 4 ? fitting : turns;
}

/** What a thread has of a sum: of whole turns of its team, then of one in which not all have a term. */
export function shareOf(sum: GraphNode, terms: Terms, { size, member }: Team, out: Statement[]): Expr {
  const { count, lanes, at } = terms;
  const place = (turn: Expr, to: Statement[]): Expr =>
    k.read(declared('k', add(member, times(turn, size)), to));
  const turns = Math.floor(count / size);
  let own: Expr | undefined;
  if (turns > 0) {
    const sums = new Accumulation();
    const total = sums.open(sum, lanes);
    const [turn, outer] = [variable('turn'), variable('outer')];
    const inner = evenly(turns);
    const number = inner < turns ? add(times(k.read(outer), inner), k.read(turn)) : k.read(turn);
    const inside: Statement[] = [];
    const v = at(place(number, inside), inside);
    inside.push(k.set(total, k.alu(opOf(sum), [k.read(total), v])));
    sums.add(inside);
    sums.loop(turn, inner, 1, true);
    if (inner < turns) sums.loop(outer, turns / inner);
    own = k.read(sums.close(out)[0]!);
  }
  if (count % size === 0) return own!;
  const last = place(k.int(turns), out);
  const inside = k.splat(lessThan(last, count), lanes);
  const clamped = declared('k', k.alu('min', [last, k.int(count - 1)]), out);
  const v = k.read(declared('v', at(k.read(clamped), out), out));
  const rest = k.read(declared('v', k.select(inside, v, identityOf(sum, lanes)), out));
  return own ? k.alu(opOf(sum), [own, rest]) : rest;
}

/** The sum of a team, whose threads' numbers differ by multiples of `apart`, held in each of them. */
export function ofTeam(sum: GraphNode, share: Expr, { size }: Team, apart: number, out: Statement[]): Expr {
  let v = k.read(declared('s', share, out));
  for (let by = size / 2; by >= 1; by /= 2) {
    const other = k.intrinsic('shuffleXor', [v, k.int(by * apart)], sum.dtype);
    v = k.read(declared('s', k.alu(opOf(sum), [v, other]), out));
  }
  return v;
}
