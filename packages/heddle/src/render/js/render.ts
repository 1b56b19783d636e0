/**
 * The simulator's renderer: a kernel as the JavaScript of one thread. A kernel without barriers and warp operations
 * becomes a plain function, any other a generator that yields `[site, ...arguments]` where it must wait for others and
 * returns the site where it ends.
 * Every access to memory asks its checker first: `x[x$.read(i, 3)]`, where 3 is the access's place in the source.
 */
import { InternalError } from '../../core/errors.js';
import { some, topological } from '../../core/node.js';
import { ASYNCHRONOUS } from '../../kernel/ir/asynchronous.js';
import { INTRINSICS, type Intrinsic } from '../../kernel/ir/intrinsics.js';
import {
  type Expr,
  isOfCluster,
  type KernelIr,
  type MemoryNode,
  type Node,
  needsOthers,
  type Special,
  type Statement,
  type StoreWay,
} from '../../kernel/ir/ir.js';
import { operandsOf } from '../../kernel/ir/operands.js';
import { isBuffer } from '../../kernel/ir/types.js';
import { jumps } from '../../kernel/ir/walk.js';
import { access, bare, encoded, expression, gathered, observes } from './expressions.js';
import { END, Scribe, type Site } from './names.js';

export { KIT } from './kit.js';
export type { Site } from './names.js';

export interface JsKernel {
  readonly name: string;
  /** Body of a function of `run`, `args`, `shared`, `local`, `engine` and the KIT's names that returns the thread function. */
  readonly source: string;
  /** The thread function is a generator: the kernel has barriers or warp operations. */
  readonly waits: boolean;
  /** It has work beside its threads, or threads that wait in groups. */
  readonly asynchronous: boolean;
  readonly sites: readonly Site[];
}

const isAsynchronous = (n: Node): boolean =>
  (n.op === 'effect' && n.arg !== null && n.arg in ASYNCHRONOUS) || (n.op === 'intrinsic' && isOfCluster(n));

const waitsHere = (n: Node): boolean =>
  (n.op === 'intrinsic' || n.op === 'effect') && n.arg !== null && needsOthers(n.arg);

const copiesHere = (n: Node): boolean =>
  (n.op === 'store' && n.arg !== null) ||
  (n.op === 'effect' && (n.arg === 'commitCopies' || n.arg === 'waitCopies' || n.arg === 'arriveCopies'));

/**
 * The JavaScript of a kernel; the same text for the same kernel.
 * @param commented with the author's lines, for those who read it
 */
export function renderJs(ir: KernelIr, commented = true): JsKernel {
  const to = new Scribe(commented);
  const asynchronous = some<Node>([ir.body], isAsynchronous) || ir.arrays.some((a) => a.form);
  const waits = asynchronous || some<Node>([ir.body], waitsHere);
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
  for (const n of topological<Node>([ir.body])) if (n.op === 'special') used.add(n.arg);
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
      if (some<Node>([ir.body], copiesHere)) to.line('const copies = new Copies();');
      if (used.has('laneId')) to.line('const laneId = run.thread & 31;');
      if (used.has('warpId')) to.line('const warpId = run.thread >> 5;');
      if (used.has('clusterRank')) to.line('const clusterRank = run.rank;');
      if (used.has('clusterSize')) to.line('const clusterSize = run.clusterSize;');
      for (const a of inSpace('local')) {
        const name = to.name(a);
        to.line(`const ${name}$ = local(${ir.arrays.indexOf(a)}), ${name} = ${name}$.data;`);
      }
      statement(to, ir.body, { ...KERNEL, waits });
      if (waits) to.line(`return ${to.site(undefined, { path: END })};`);
    },
    '};',
  );
  return { name: ir.name, source: to.text(), waits, asynchronous, sites: to.sites };
}

/** Where a statement stands. */
interface Around {
  /** The kernel has barriers or warp operations: it tells where it ends. */
  readonly waits: boolean;
  /** Nothing of the kernel comes after the statement. */
  readonly last: boolean;
  /** What `continue` is: itself, or leaving the labelled body before the update. */
  readonly proceed: string;
}
const KERNEL: Around = { waits: false, last: true, proceed: 'continue;' };
const inLoop = ({ waits }: Around, proceed = 'continue;'): Around => ({ waits, last: false, proceed });

function statement(to: Scribe, s: Statement, around: Around): void {
  const x = (n: Node | undefined): string => bare(to, n as Expr);
  if (s.op !== 'block') to.comment(s.at);
  switch (s.op) {
    case 'block':
      s.src.forEach((each, i) => {
        const last = around.last && i === s.src.length - 1;
        statement(to, each as Statement, { ...around, last });
      });
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
    case 'update':
      throw new InternalError('kernel JavaScript: an update stands in a lowered kernel only');
    case 'if':
      chosen(to, s, around);
      break;
    case 'for':
      counted(to, s, around);
      break;
    case 'while':
      repeated(to, s, around);
      break;
    case 'break':
      to.line('break;');
      break;
    case 'continue':
      to.line(around.proceed);
      break;
    case 'return':
      to.line(around.waits ? `return ${to.site(s.at, { path: to.path() })};` : 'return;');
      break;
    case 'effect':
      if (s.arg === 'commitCopies') to.line('copies.commit();');
      else if (s.arg === 'waitCopies') to.line(`copies.wait(${x(s.src[0])});`);
      else if (s.arg && s.arg in ASYNCHRONOUS) beside(to, s, s.arg);
      else if (s.arg)
        to.line(
          `yield [${[to.site(s.at, { intrinsic: s.arg, path: to.path() }), ...s.src.map(x)].join(', ')}];`,
        );
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

/** An operation of the engine that works beside the threads: asked of it, or waited for with others. */
function beside(to: Scribe, s: Statement & { op: 'effect' }, name: Intrinsic): void {
  const { places, values } = operandsOf(INTRINSICS[name], s.src);
  const at = places.map(
    ({ memory, indices }) => `[${to.name(memory.arg)}$, [${indices.map((i) => bare(to, i)).join(', ')}]]`,
  );
  const operands = [...at, ...values.map((v) => bare(to, v))];
  const site = to.site(s.at, { intrinsic: name, path: to.path() });
  const all = [site, ...operands].join(', ');
  if (name === 'arriveCopies') to.line('copies.handOver();');
  to.line(needsOthers(name) ? `yield [${all}];` : `engine.${name}(${all});`);
}

/** Both sides of a last `if` end the thread, as `return` in one of them would: nothing comes after it. */
function chosen(to: Scribe, s: Extract<Statement, { op: 'if' }>, around: Around): void {
  const [condition, then, otherwise] = s.src as [Expr, Statement, Statement | undefined];
  const ends = around.waits && around.last;
  const write = to.construct();
  const side = (branch: 'then' | 'else', body: Statement | undefined): void =>
    write(branch, () => {
      if (body) statement(to, body, around);
      if (ends) to.line(`return ${to.site(undefined, { path: to.path() })};`);
    });
  const two = otherwise !== undefined || ends;
  to.braces(`if (${bare(to, condition)})`, () => side('then', then), two ? '} else {' : '}');
  if (!two) return;
  to.indented(() => side('else', otherwise));
  to.line('}');
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
  const source = way && copied(to, v);
  if (source) {
    text = source.value;
  } else if (observes(v) || way) {
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
  const from = source ? `, ${source.memory}, ${source.place}` : '';
  to.line(`copies.start(() => { ${written(at)} }, ${v.type.lanes}, ${site}, ${data}$, ${at}${from});`);
}

/** What an asynchronous copy reads: the memory and the place, −1 where its condition is false, and the value. */
function copied(to: Scribe, v: Expr): { memory: string; place: string; value: string } | undefined {
  const [condition, loaded, zero] = v.op === 'select' ? (v.src as Expr[]) : [undefined, v];
  if (loaded?.op !== 'load') return undefined;
  const memory = loaded.src[0] as MemoryNode;
  const [place, value] = [to.fresh('from'), to.fresh('value')];
  const read = access(to, 'read', memory, loaded.src.slice(1) as Expr[], loaded.type, to.site(loaded.at));
  to.line(`const ${place} = ${condition ? `${expression(to, condition)} ? ${read} : -1` : read};`);
  const taken = gathered(to, loaded, place);
  to.line(`const ${value} = ${zero ? `${place} < 0 ? ${expression(to, zero)} : ${taken}` : taken};`);
  return { memory: `${to.name(memory.arg)}$`, place, value };
}

function counted(to: Scribe, s: Extract<Statement, { op: 'for' }>, around: Around): void {
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
    to.construct()('loop', () => statement(to, body, inLoop(around)));
  });
}

function repeated(to: Scribe, s: Extract<Statement, { op: 'while' }>, around: Around): void {
  const [condition, body, update] = s.src as [Expr, Statement, Statement];
  to.construct()('loop', () => {
    to.braces(`while (${bare(to, condition)})`, () => {
      to.line(`run.step(++steps, ${to.site(s.at)});`);
      const label = update.src.length > 0 && jumps(body, ['continue']) ? to.fresh('body') : undefined;
      if (label) to.braces(`${label}:`, () => statement(to, body, inLoop(around, `break ${label};`)));
      else statement(to, body, inLoop(around));
      statement(to, update, inLoop(around));
    });
  });
}
