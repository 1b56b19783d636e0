/**
 * The kernel IR as CUDA C++ without headers, for NVRTC and nvcc alike, sm_80 and up.
 *
 * The text means exactly what kernel/ir/ops.ts says if it is compiled with `NVRTC_FLAGS`: products and sums must not be
 * contracted into fused multiply-adds behind the author's back (a kernel says `fma` where it wants one), and division
 * and square root must round correctly.
 */
import { basename } from '#platform/paths.js';
import { i32, isByte } from '../../core/dtype.js';
import { around, InternalError, type Location } from '../../core/errors.js';
import { ASYNCHRONOUS } from '../../kernel/ir/asynchronous.js';
import { INTRINSICS, type Intrinsic } from '../../kernel/ir/intrinsics.js';
import type { ArrayDecl, Expr, KernelIr, Param, Statement, Variable } from '../../kernel/ir/ir.js';
import { operandsOf } from '../../kernel/ir/operands.js';
import { type SharedLayout, sharedLayoutOf } from '../../kernel/ir/shared-layout.js';
import { isBuffer } from '../../kernel/ir/types.js';
import type { Message } from '../message.js';
import { type Asynchronous, asynchronousCall, sumRegisters } from './asynchronous.js';
import { storedBytes } from './bytes.js';
import { asyncCopy } from './copies.js';
import { CudaExpressions, isVectorArray } from './expression.js';
import { type Analysis, accessOf, analyse } from './index-arithmetic.js';
import { intrinsicCall } from './intrinsics.js';
import { Messages, recorded } from './messages.js';
import { identifier, Names } from './names.js';
import { Prelude } from './prelude.js';
import {
  call,
  infix,
  LANES,
  MEMORY_TYPE,
  memoryVectorName,
  PRECEDENCE,
  postfix,
  registerType,
  type Text,
  within,
} from './text.js';

/** How the text must be compiled (nvcc takes the same with one dash). */
export const NVRTC_FLAGS = [
  '--std=c++17',
  '--fmad=false',
  '--ftz=false',
  '--prec-div=true',
  '--prec-sqrt=true',
] as const;

export interface CudaOptions {
  /** Threads a block will have at most, for `__launch_bounds__`. */
  readonly maxThreads?: number;
  /** Leave out the comments with the author's lines, so that equal kernels have equal text. */
  readonly comments?: boolean;
}

/** Where a block stands among those of its list of arguments. */
const LIST_BLOCK = 'list_block';

/** The name of a kernel's entry point. */
export const cudaEntry = (ir: KernelIr): string => identifier(ir.name);

/** The CUDA C++ of a kernel, and what its asserts and prints say. */
export interface CudaKernel {
  readonly text: string;
  readonly messages: readonly Message[];
}

/**
 * The CUDA C++ of a kernel: the definitions it uses and `extern "C" __global__ void name(…)`, with the parameters in
 * the kernel's order, buffers as pointers and scalars in the size of their dtype.
 */
export const renderCuda = (ir: KernelIr, options: CudaOptions = {}): string =>
  renderCudaKernel(ir, options).text;

export const renderCudaKernel = (ir: KernelIr, options: CudaOptions = {}): CudaKernel =>
  new Writer(ir, options).write();

class Writer {
  readonly #ir: KernelIr;
  readonly #options: CudaOptions;
  readonly #prelude: Prelude;
  readonly #names = new Names();
  readonly #analysis: Analysis;
  readonly #expressions: CudaExpressions;
  readonly #messages: Messages;
  readonly #lines: string[] = [];
  #depth = 1;
  /** The author's line that the last comment showed. */
  #shown = '';

  constructor(ir: KernelIr, options: CudaOptions) {
    this.#ir = ir;
    this.#options = options;
    this.#analysis = analyse(ir.body);
    const { maxThreads = 32 } = options;
    const { returns, isOfCluster, clearedSums } = this.#analysis;
    this.#prelude = new Prelude(maxThreads % 32 === 0 && !returns, isOfCluster, clearedSums);
    this.#messages = new Messages(ir.name, cudaEntry(ir), this.#prelude);
    const block = ir.lists === undefined ? undefined : LIST_BLOCK;
    this.#expressions = new CudaExpressions(this.#prelude, this.#names, this.#analysis, block);
  }

  write(): CudaKernel {
    const { params, arrays, body, lists, resident } = this.#ir;
    const { maxThreads } = this.#options;
    // Registers can be moved between warpgroups only where their number is fixed: by one block of a multiprocessor.
    const most = this.#analysis.movesRegisters ? 1 : resident;
    const blocks = most === undefined ? '' : `, ${most}`;
    const bounds = maxThreads === undefined ? '' : ` __launch_bounds__(${maxThreads}${blocks})`;
    const list =
      lists === undefined ? params.map((p) => this.#parameter(p)).join(', ') : this.#lists(params, lists);
    const layout = sharedLayoutOf(this.#ir);
    if (layout) this.#line(`alignas(1024) extern __shared__ unsigned char placed_shared[];`);
    for (const array of arrays) this.#array(array, layout);
    this.#statements(body);
    const prelude = this.#prelude.toString();
    const text = `${prelude}${prelude && '\n'}extern "C" __global__ void${bounds} ${cudaEntry(this.#ir)}(${list}) {\n${[...this.#lines, ''].join('\n')}}\n`;
    return { text, messages: this.#messages.list };
  }

  /** Not `__restrict__`: a caller may pass one buffer twice. */
  #parameter(param: Param): string {
    const name = this.#names.declare(param, param.name);
    const { schema } = param;
    const dtype = isBuffer(schema) ? schema.dtype : schema;
    if (dtype.name === 'f16' || dtype.name === 'bf16') this.#prelude.need(dtype.name);
    if (!isBuffer(schema)) return `${MEMORY_TYPE[dtype.name]} ${name}`;
    if (schema.map) return `const __grid_constant__ TensorMap ${name}`;
    return `${this.#analysis.written.has(param) ? '' : 'const '}${MEMORY_TYPE[dtype.name]}* ${name}`;
  }

  /** All lists in one parameter, of 8 bytes for each argument. A block looks for its own among their first blocks. */
  #lists(params: readonly Param[], lists: number): string {
    const members = params.map((p) => `alignas(8) ${this.#parameter(p)};`).join(' ');
    this.#prelude.define('Lists', () =>
      [
        `struct Arguments { ${members} };`,
        `struct Lists { long long first[${lists}]; Arguments of[${lists}]; };`,
      ].join('\n'),
    );
    this.#line('int list = 0;');
    this.#line(`for (int step = ${2 ** Math.floor(Math.log2(lists))}; step > 0; step >>= 1)`);
    this.#line(`  if (list + step < ${lists} && lists.first[list + step] <= blockIdx.x) list += step;`);
    this.#line(`const int ${LIST_BLOCK} = blockIdx.x - lists.first[list];`);
    for (const p of params) {
      const name = this.#names.of(p, p.name);
      this.#line(`const auto ${name} = lists.of[list].${name};`);
    }
    return 'const __grid_constant__ Lists lists';
  }

  #array(array: ArrayDecl, layout: SharedLayout | undefined): void {
    const name = this.#names.declare(array, array.name);
    const { dtype, lanes, dims, space, form } = array;
    const offset = layout?.offsets.get(array);
    if (form === 'tile') {
      this.#line(`unsigned char* const ${name} = placed_shared + ${offset};`);
      return;
    }
    if (form === 'barriers') {
      this.#line(`auto* const ${name} = reinterpret_cast<unsigned long long*>(placed_shared + ${offset});`);
      return;
    }
    if (dtype.name === 'f16' || dtype.name === 'bf16') this.#prelude.need(dtype.name);
    const element = lanes > 1 ? this.#prelude.vector(dtype, lanes) : MEMORY_TYPE[dtype.name];
    if (dims[0] === -1) {
      const isFirst = this.#ir.arrays.find(({ dims }) => dims[0] === -1) === array;
      if (!layout && isFirst) this.#line('alignas(16) extern __shared__ unsigned char dynamic_shared[];');
      const from = layout ? `placed_shared + ${layout.bytes}` : 'dynamic_shared';
      this.#line(`${element}* const ${name} = reinterpret_cast<${element}*>(${from});`);
      return;
    }
    const sizes = dims.map((d) => `[${d}]`).join('');
    if (offset !== undefined) {
      this.#line(`auto& ${name} = *reinterpret_cast<${element} (*)${sizes}>(placed_shared + ${offset});`);
      return;
    }
    // Aligned, for accesses to several lanes at once.
    this.#line(`${space === 'shared' ? '__shared__ ' : ''}alignas(16) ${element} ${name}${sizes};`);
    if (this.#prelude.clearedSums.has(array)) this.#line(`${sumRegisters(name, array)};`);
  }

  #line(text: string): void {
    this.#lines.push('  '.repeat(this.#depth) + text);
  }

  /** The author's line above what it became, once. */
  #comment(at: Location | undefined): void {
    const text = this.#newComment(at);
    if (text) this.#line(text);
  }

  #newComment(at: Location | undefined): string {
    if (!at || this.#options.comments === false) return '';
    const key = `${basename(at.file)}:${at.line}`;
    if (key === this.#shown) return '';
    this.#shown = key;
    // A comment that ended in a backslash would swallow the next line.
    return `// ${key}  ${around(at).text.trim()}`.replace(/[\\\s]+$/, '');
  }

  /** The statements of a block, or the one statement, without braces. */
  #statements(s: Statement): void {
    if (s.op === 'block') for (const inner of s.src) this.#statement(inner as Statement);
    else this.#statement(s);
  }

  /** As the body of what ends in ` {`; the caller closes it. */
  #body(s: Statement): void {
    this.#inner(() => this.#statements(s));
  }

  #inner(write: () => void): void {
    this.#depth++;
    this.#names.scoped(write);
    this.#depth--;
  }

  #statement(s: Statement): void {
    if (s.op !== 'block') this.#comment(s.at);
    switch (s.op) {
      case 'block':
        this.#line('{');
        this.#body(s);
        this.#line('}');
        return;
      case 'let': {
        const initial = s.src[0] as Expr;
        const value = this.#analysis.onlyStored.has(s.arg)
          ? this.#expressions.beforeStore(initial)
          : this.#value(initial);
        const name = this.#declare(s.arg);
        this.#line(`${s.arg.constant ? 'const ' : ''}${registerType(s.arg.type)} ${name} = ${value.text};`);
        return;
      }
      case 'set':
        this.#line(`${this.#assignment(s)};`);
        return;
      case 'store':
        this.#store(s);
        return;
      case 'update':
        throw new InternalError('CUDA C++: an update stands in a lowered kernel only');
      case 'if':
        this.#if(s);
        return;
      case 'for':
        this.#names.scoped(() => this.#for(s));
        return;
      case 'while':
        this.#while(s);
        return;
      case 'break':
      case 'continue':
      case 'return':
        this.#line(`${s.op};`);
        return;
      case 'effect':
        this.#line(`${(s.arg ? this.#act(s) : this.#value(s.src[0] as Expr)).text};`);
        return;
      case 'assert':
        this.#assert(s);
        return;
      case 'print':
        this.#print(s);
        return;
    }
  }

  #value(e: Expr): Text {
    return this.#expressions.value(e);
  }

  #declare(variable: Variable): string {
    return this.#names.declare(variable, variable.name);
  }

  #assignment(s: Statement & { op: 'set' }): string {
    return `${this.#names.of(s.arg, s.arg.name)} = ${this.#value(s.src[0] as Expr).text}`;
  }

  /** An intrinsic without a result. */
  #act(s: Statement & { op: 'effect' }): Text {
    const name = s.arg!;
    if (name in ASYNCHRONOUS) {
      const { places, values } = operandsOf(INTRINSICS[name], s.src);
      const texts = places.map(({ kind, memory, indices }) =>
        this.#expressions.placeText(kind, memory, indices),
      );
      const given = values.map((e) => this.#value(e));
      return asynchronousCall(this.#prelude, name as Asynchronous, texts, values, given);
    }
    const args = (s.src as readonly Expr[]).map((e) => this.#value(e));
    return intrinsicCall(this.#prelude, name as Exclude<Intrinsic, Asynchronous>, i32, args);
  }

  #store(s: Statement & { op: 'store' }): void {
    const { memory, indices } = accessOf(s)!;
    const value = s.src[1] as Expr;
    if (s.arg) {
      this.#line(`${asyncCopy(this.#prelude, this.#expressions, memory, indices, s, s.arg).text};`);
      return;
    }
    const { dtype, lanes } = value.type;
    const expressions = this.#expressions;
    const isArray = isVectorArray(memory);
    const given = isArray ? expressions.value(value) : expressions.stored(value);
    const { text } = given;
    if (lanes === 1 || expressions.isWide(memory, indices, lanes)) {
      const place = expressions.place(memory, indices, lanes);
      const isWord = lanes > 1 && isByte(dtype) && !isArray;
      const stored = isWord
        ? storedBytes(this.#prelude, value.type, place, given).text
        : `${place.text} = ${text}`;
      this.#line(`${stored};`);
      return;
    }
    const type = this.#prelude.memoryVector(dtype, lanes);
    const name = `store_each_${memoryVectorName(dtype, lanes)}`;
    const each = LANES.slice(0, lanes).map((lane, i) => `p[${i}] = v.${lane};`);
    this.#prelude.define(
      name,
      () => `__device__ inline void ${name}(${MEMORY_TYPE[dtype.name]}* p, ${type} v) { ${each.join(' ')} }`,
    );
    this.#line(`${call(name, expressions.address(memory, indices), postfix(text)).text};`);
  }

  #if(s: Statement & { op: 'if' }): void {
    let open = '';
    let branch: Statement = s;
    for (;;) {
      const [condition, then, otherwise] = branch.src as readonly [Expr, Statement, Statement?];
      const comment = open && this.#newComment(branch.at);
      this.#line(`${open}if (${this.#value(condition).text}) {${comment && `  ${comment}`}`);
      this.#body(then);
      if (!otherwise || (otherwise.op === 'block' && otherwise.src.length === 0)) break;
      const only = otherwise.op === 'block' && otherwise.src.length === 1 ? otherwise.src[0]! : otherwise;
      if (only.op !== 'if') {
        this.#line('} else {');
        this.#body(otherwise);
        break;
      }
      open = '} else ';
      branch = only;
    }
    this.#line('}');
  }

  /** The bounds are evaluated once: what may change meanwhile is kept in variables next to the counter. */
  #for(s: Statement & { op: 'for' }): void {
    const [start, end, step, body] = s.src as readonly [Expr, Expr, Expr, Statement];
    const { variable, unroll } = s.arg;
    const texts = [start, end, step].map((e) => this.#value(e));
    const name = this.#declare(variable);
    const held: string[] = [`${name} = ${texts[0]!.text}`];
    const bound = (e: Expr, text: Text, suffix: string): Text => {
      if (isFixed(e)) return text;
      const own = this.#names.declare(e, `${variable.name}_${suffix}`);
      held.push(`${own} = ${text.text}`);
      return postfix(own);
    };
    const last = bound(end, texts[1]!, 'end');
    const by = bound(step, texts[2]!, 'step');
    if (unroll === true) this.#line('#pragma unroll');
    else if (unroll === 'rolled') this.#line('#pragma unroll 1');
    const update = Number(by.literal) === 1 ? `${name}++` : `${name} += ${by.text}`;
    const condition = infix(postfix(name), '<', last, PRECEDENCE.relation).text;
    this.#line(`for (${registerType(variable.type)} ${held.join(', ')}; ${condition}; ${update}) {`);
    this.#body(body);
    this.#line('}');
  }

  #while(s: Statement & { op: 'while' }): void {
    const [condition, body, update] = s.src as readonly [Expr, Statement, Statement];
    const updates = update.op === 'block' ? (update.src as readonly Statement[]) : [update];
    const sets = updates.flatMap((u) => (u.op === 'set' ? this.#assignment(u) : []));
    if (sets.length === updates.length) {
      const test = this.#value(condition).text;
      this.#line(sets.length === 0 ? `while (${test}) {` : `for (; ${test}; ${sets.join(', ')}) {`);
      this.#body(body);
      this.#line('}');
      return;
    }
    // An update that is not an expression stands at the head of the loop, skipped the first time.
    const first = { name: 'first' };
    this.#names.scoped(() => {
      const name = this.#names.declare(first, first.name);
      this.#line(`for (bool ${name} = true;; ${name} = false) {`);
      this.#depth++;
      this.#line(`if (!${name}) {`);
      this.#body(update);
      this.#line('}');
      this.#line(`if (!${within(this.#value(condition), PRECEDENCE.unary)}) break;`);
      this.#depth--;
      this.#body(body);
      this.#line('}');
    });
  }

  /** A failed assertion leaves a record and ends its thread; the others go on, and the device stays usable. */
  #assert(s: Statement & { op: 'assert' }): void {
    const condition = within(this.#value(s.src[0] as Expr), PRECEDENCE.unary);
    const record = this.#messages.record('assert', s.arg, s.at, []);
    this.#line(`if (!${condition}) {`);
    this.#line(`  ${record};`);
    this.#line('  asm volatile("exit;");');
    this.#line('}');
  }

  #print(s: Statement & { op: 'print' }): void {
    const values = (s.src as readonly Expr[]).map((e) => ({ type: e.type, text: this.#value(e) }));
    const types = values.map((v) => v.type);
    this.#line(`if (long long* const message = ${this.#messages.record('print', s.arg, s.at, types)}) {`);
    let next = 0;
    for (const { type, text } of values) {
      const lanes =
        type.lanes === 1
          ? [text]
          : LANES.slice(0, type.lanes).map((lane) => postfix(`${within(text, PRECEDENCE.postfix)}.${lane}`));
      for (const lane of lanes) this.#line(`  message[${next++}] = ${recorded(type.dtype, lane).text};`);
    }
    // The host has it even if the kernel fails right after.
    this.#line('  __threadfence_system();');
    this.#line('}');
  }
}

/** Whether an expression is as good evaluated again: it is short and nothing in the loop can change it. */
function isFixed(e: Expr): boolean {
  if (e.op === 'const' || e.op === 'param' || e.op === 'special') return true;
  return e.op === 'variable' && e.arg.constant;
}
