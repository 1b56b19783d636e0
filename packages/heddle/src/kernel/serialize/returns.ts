/** Early returns of a thread whose program becomes the body of a loop: structured ifs, and a flag inside loops. */
import { bool } from '../../core/dtype.js';
import {
  alu,
  block,
  breakLoop,
  constant,
  declare,
  type Expr,
  type Node,
  read,
  type Statement,
  set,
  type Variable,
  when,
} from '../ir/ir.js';
import { value } from '../ir/types.js';
import { returnIn } from '../ir/walk.js';

export const returns = (s: Node): boolean => returnIn(s) !== undefined;

/** Whether `s` never continues after it. */
function endsThread(s: Node | undefined): boolean {
  if (!s) return false;
  if (s.op === 'block') return endsThread(s.src.at(-1));
  if (s.op === 'if') return s.src.length === 3 && endsThread(s.src[1]) && endsThread(s.src[2]);
  return s.op === 'return';
}

/** The same statements without `return`: the statements after one are skipped instead. */
export function withoutReturns(statements: readonly Statement[]): Statement[] {
  const structured = sequence(statements, false, undefined);
  if (structured) return structured;
  const done: Variable = { name: 'done', type: value(bool), constant: false };
  return [declare(done, constant(bool, false)), ...sequence(statements, false, done)!];
}

/** Undefined if a flag is needed and `done` is not there. In a loop, a return leaves the loop. */
function sequence(
  list: readonly Statement[],
  inLoop: boolean,
  done: Variable | undefined,
): Statement[] | undefined {
  const out: Statement[] = [];
  const inside = (n: Node | undefined, loop: boolean): Statement | undefined => {
    const statements = sequence(n ? [n as Statement] : [], loop, done);
    return statements && block(statements);
  };
  for (const [i, s] of list.entries()) {
    const rest = list.slice(i + 1);
    if (!returns(s)) {
      out.push(s);
    } else if (s.op === 'return') {
      if (done) out.push(set(done, constant(bool, true)));
      if (inLoop) out.push(breakLoop());
      return out;
    } else if (s.op === 'block') {
      const all = sequence([...(s.src as Statement[]), ...rest], inLoop, done);
      return all && [...out, ...all];
    } else if (s.op === 'if') {
      const [condition, yes, no] = s.src as [Expr, Statement, Statement | undefined];
      const [then, otherwise] = [inside(yes, inLoop), inside(no, inLoop)];
      if (!then || !otherwise) return undefined;
      const following = sequence(rest, inLoop, done);
      if (!following) return undefined;
      if (inLoop) return [...out, when(condition, then, otherwise, s.at), ...following];
      if (endsThread(yes) && !(no && returns(no))) {
        return [...out, when(condition, then, block([otherwise, ...following]), s.at)];
      }
      if (no && endsThread(no) && !returns(yes)) {
        return [...out, when(condition, block([then, ...following]), otherwise, s.at)];
      }
      out.push(when(condition, then, otherwise, s.at));
      return skipping(out, following, done);
    } else {
      const at = s.op === 'for' ? 3 : 1;
      const body = inside(s.src[at], true);
      const following = sequence(rest, inLoop, done);
      if (!body || !following) return undefined;
      out.push({ ...s, src: s.src.with(at, body) } as Statement);
      if (inLoop) return done && [...out, when(read(done), block([breakLoop()])), ...following];
      return skipping(out, following, done);
    }
  }
  return out;
}

/** `rest` only for threads that have not returned in what stands before. */
function skipping(
  before: readonly Statement[],
  rest: readonly Statement[],
  done: Variable | undefined,
): Statement[] | undefined {
  if (rest.length === 0) return [...before];
  return done && [...before, when(alu('not', [read(done)]), block(rest))];
}
