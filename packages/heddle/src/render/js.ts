/**
 * The simulator's renderer: a kernel as the JavaScript of one thread. A kernel without barriers and warp operations
 * becomes a plain function, any other a generator that yields `[site, ...arguments]` where it must wait for others.
 * Every access to memory asks its checker first: `x[x$.read(i, 3)]`, where 3 is the access's place in the source.
 */
import { InternalError } from '../core/errors.js';
import { topological } from '../ir/node.js';
import {
  type Expr,
  type KernelIr,
  type MemoryNode,
  type Node,
  needsOthers,
  type Special,
  type Statement,
  type StoreWay,
} from '../kernel/ir.js';
import { isBuffer } from '../kernel/types.js';
import { access, bare, encoded, expression, observes } from './js-expressions.js';
import { Scribe, type Site } from './js-names.js';

export { KIT } from './js-kit.js';
export type { Site } from './js-names.js';

export interface JsKernel {
  readonly name: string;
  /** Body of a function of `run`, `args`, `shared` and the KIT's names that returns the thread function. */
  readonly source: string;
  /** The thread function is a generator: the kernel has barriers or warp operations. */
  readonly waits: boolean;
  readonly sites: readonly Site[];
}

const some = (n: Node, what: (n: Node) => boolean): boolean => topological<Node>([n]).some(what);

const waitsHere = (n: Node): boolean =>
  (n.op === 'intrinsic' || n.op === 'effect') && n.arg !== null && needsOthers(n.arg);

const copiesHere = (n: Node): boolean =>
  (n.op === 'store' && n.arg !== null) ||
  (n.op === 'effect' && (n.arg === 'commitCopies' || n.arg === 'waitCopies'));

/** The JavaScript of a kernel; the same text for the same kernel. */
export function renderJs(ir: KernelIr): JsKernel {
  const to = new Scribe();
  const waits = some(ir.body, waitsHere);
  const schema = (p: KernelIr['params'][number]): string =>
    isBuffer(p.schema) ? `buffer(${p.schema.dtype.name})` : p.schema.name;
  to.line(`// ${ir.name}(${ir.params.map((p) => `${p.name}: ${schema(p)}`).join(', ')})`);
  ir.params.forEach((p, i) => {
    const name = to.name(p);
    to.line(
      isBuffer(p.schema)
        ? `const ${name}$ = args[${i}], ${name} = ${name}$.data;`
        : `const ${name} = args[${i}];`,
    );
  });
  const inSpace = (space: 'shared' | 'local') => ir.arrays.filter((a) => a.space === space);
  inSpace('shared').forEach((a, i) => {
    const name = to.name(a);
    to.line(`const ${name}$ = shared[${i}], ${name} = ${name}$.data;`);
  });
  const used = new Set<Special>();
  some(ir.body, (n) => {
    if (n.op === 'special') used.add(n.arg);
    return false;
  });
  for (const dim of ['blockDim', 'gridDim'] as const) {
    (['x', 'y', 'z'] as const).forEach((axis, i) => {
      if (used.has(`${dim}.${axis}`)) to.line(`const ${dim}_${axis} = run.${dim}[${i}];`);
    });
  }
  const indices = ['threadIdx', 'blockIdx'].flatMap((s) => ['x', 'y', 'z'].map((axis) => `${s}_${axis}`));
  to.braces(
    `return function${waits ? '*' : ''} (${indices.join(', ')})`,
    () => {
      to.line('let steps = 0;');
      if (some(ir.body, copiesHere)) to.line('const copies = new Copies();');
      if (used.has('laneId')) to.line('const laneId = run.thread & 31;');
      if (used.has('warpId')) to.line('const warpId = run.thread >> 5;');
      for (const a of inSpace('local')) {
        const name = to.name(a);
        to.line(`const ${name}$ = run.local(${ir.arrays.indexOf(a)}), ${name} = ${name}$.data;`);
      }
      statement(to, ir.body, NO_LOOP);
    },
    '};',
  );
  return { name: ir.name, source: to.text(), waits, sites: to.sites };
}

/** What `continue` is inside a loop: itself, or leaving the labelled body before the update. */
interface Loop {
  readonly proceed: string;
}
const NO_LOOP: Loop = { proceed: 'continue;' };

/** Whether a `continue` of the loop around `s` stands in it. */
const continues = (s: Node): boolean =>
  s.op === 'continue' || (s.op !== 'for' && s.op !== 'while' && s.src.some(continues));

function statement(to: Scribe, s: Statement, loop: Loop): void {
  const x = (n: Node | undefined): string => bare(to, n as Expr);
  const inside = (n: Node | undefined, l: Loop): void => statement(to, n as Statement, l);
  if (s.op !== 'block') to.comment(s.at);
  switch (s.op) {
    case 'block':
      for (const each of s.src) inside(each, loop);
      break;
    case 'let':
      to.line(`${s.arg.constant ? 'const' : 'let'} ${to.name(s.arg)} = ${x(s.src[0])};`);
      break;
    case 'set':
      to.line(`${to.name(s.arg)} = ${x(s.src[0])};`);
      break;
    case 'store':
      store(to, s.src[0] as MemoryNode, s.src[1] as Expr, s.src.slice(2) as Expr[], to.site(s.at), s.arg);
      break;
    case 'if':
      to.braces(`if (${x(s.src[0])})`, () => inside(s.src[1], loop), s.src[2] ? '} else {' : '}');
      if (s.src[2]) {
        to.indented(() => inside(s.src[2], loop));
        to.line('}');
      }
      break;
    case 'for':
      counted(to, s);
      break;
    case 'while':
      repeated(to, s);
      break;
    case 'break':
      to.line('break;');
      break;
    case 'continue':
      to.line(loop.proceed);
      break;
    case 'return':
      to.line('return;');
      break;
    case 'effect':
      if (s.arg === 'commitCopies') to.line('copies.commit();');
      else if (s.arg === 'waitCopies') to.line(`copies.wait(${x(s.src[0])});`);
      else if (s.arg)
        to.line(`yield [${[to.site(s.at, { intrinsic: s.arg }), ...s.src.map(x)].join(', ')}];`);
      else if (s.src[0]) to.line(`${x(s.src[0])};`);
      else throw new InternalError('kernel JavaScript: an effect of nothing');
      break;
    case 'assert':
      to.line(
        `if (!${expression(to, s.src[0] as Expr)}) run.assertion(${JSON.stringify(s.arg)}, ${to.site(s.at)});`,
      );
      break;
    case 'print': {
      const dtypes = s.src.map((v) => (v as Expr).type.dtype.name).join(', ');
      to.line(`run.print(${JSON.stringify(s.arg)}, [${dtypes}], [${s.src.map(x).join(', ')}]);`);
      break;
    }
  }
}

/** The value comes before the check of its place, so that `s[t] = s[t] + 1` is seen to read first. */
function store(
  to: Scribe,
  memory: MemoryNode,
  v: Expr,
  indices: readonly Expr[],
  site: number,
  way: StoreWay | null,
): void {
  const data = to.name(memory.arg);
  let text: string;
  if (observes(v) || way) {
    text = to.fresh('value');
    to.line(`const ${text} = ${bare(to, v)};`);
  } else {
    text = expression(to, v);
  }
  const place = access(to, 'write', memory, indices, v.type, site);
  const t = v.type.dtype;
  const written = (at: string): string =>
    v.type.lanes === 1
      ? `${data}[${at}] = ${encoded(t, text)};`
      : `scatter(${t.name}, ${data}, ${at}, ${text});`;
  if (!way) {
    to.line(written(place));
    return;
  }
  // Checked now, written when it is waited for.
  const at = to.fresh('place');
  to.line(`const ${at} = ${place};`);
  to.line(`copies.start(() => { ${written(at)} }, ${data}$, ${at}, ${v.type.lanes}, ${site});`);
}

function counted(to: Scribe, s: Extract<Statement, { op: 'for' }>): void {
  const [start, end, step, body] = s.src as [Expr, Expr, Expr, Statement];
  const { variable } = s.arg;
  const name = to.name(variable);
  const held = (e: Expr, stem: string): string => {
    const text = bare(to, e);
    if (e.op === 'const') return text;
    const temporary = to.fresh(`${name}_${stem}`);
    to.line(`const ${temporary} = ${text};`);
    return temporary;
  };
  const from = bare(to, start);
  const limit = held(end, 'end');
  const by = held(step, 'step');
  const t = variable.type.dtype;
  const next =
    t.name === 'i64'
      ? `BigInt.asIntN(64, ${name} + ${by})`
      : `${name} + ${by} ${t.kind === 'int' ? '|' : '>>>'} 0`;
  to.braces(`for (let ${name} = ${from}; ${name} < ${limit}; ${name} = ${next})`, () => {
    to.line(`run.step(++steps, ${to.site(s.at)});`);
    statement(to, body, NO_LOOP);
  });
}

function repeated(to: Scribe, s: Extract<Statement, { op: 'while' }>): void {
  const [condition, body, update] = s.src as [Expr, Statement, Statement];
  to.braces(`while (${bare(to, condition)})`, () => {
    to.line(`run.step(++steps, ${to.site(s.at)});`);
    const label = update.src.length > 0 && continues(body) ? to.fresh('body') : undefined;
    if (label) to.braces(`${label}:`, () => statement(to, body, { proceed: `break ${label};` }));
    else statement(to, body, NO_LOOP);
    statement(to, update, NO_LOOP);
  });
}
