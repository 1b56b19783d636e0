/** A WebAssembly module as we build it, and the two ways to write it: bytes for the engine, text for people. */
import { INSTRUCTIONS, type InstructionName } from './instructions.js';

export type WasmType = 'i32' | 'i64' | 'f32' | 'f64' | 'v128';

const TYPE_CODE: Record<WasmType, number> = { i32: 0x7f, i64: 0x7e, f32: 0x7d, f64: 0x7c, v128: 0x7b };
const NO_TYPE = 0x40;

/** A parameter or local of a function. */
export interface Local {
  readonly name: string;
  readonly type: WasmType;
  readonly index: number;
}

/** The target of a branch: an open block (its end) or loop (its start). */
export interface Label {
  readonly name: string;
  readonly depth: number;
}

type InstructionOperand =
  | number
  | bigint
  | Local
  | FunctionBuilder
  | Uint8Array
  | WasmType
  | readonly number[]
  | undefined;

interface Instr {
  readonly name: InstructionName;
  readonly operand: InstructionOperand;
  /** Offset of a memory access. */
  readonly offset: number;
  /** Label name of a block or branch, for the text. */
  readonly label?: string;
}

/** Unsigned LEB128. */
export function unsigned(n: number, out: number[]): void {
  let rest = n;
  while (rest >= 128) {
    out.push((rest % 128) | 128);
    rest = Math.floor(rest / 128);
  }
  out.push(rest);
}

/** Signed LEB128. */
export function signed(n: bigint, out: number[]): void {
  let rest = n;
  for (;;) {
    const low = Number(rest & 127n);
    rest >>= 7n;
    if ((rest === 0n && low < 64) || (rest === -1n && low >= 64)) {
      out.push(low);
      return;
    }
    out.push(low | 128);
  }
}

const scratch = new DataView(new ArrayBuffer(8));

function floatBytes(v: number, bytes: 4 | 8, out: number[]): void {
  if (bytes === 4) scratch.setFloat32(0, v, true);
  else scratch.setFloat64(0, v, true);
  for (let i = 0; i < bytes; i++) out.push(scratch.getUint8(i));
}

/** log2 of the natural alignment of an access, as its encoding states it. */
function alignmentOf(name: InstructionName): number {
  if (/^i32\.(load8|store8|atomic\.rmw8)/.test(name)) return 0;
  if (/load16|store16|rmw16/.test(name)) return 1;
  if (/^v128\.(load|store)64|^i64|^f64/.test(name)) return 3;
  if (name === 'v128.load' || name === 'v128.store') return 4;
  return 2;
}

/** One function under construction: append instructions in order. */
export class FunctionBuilder {
  readonly name: string;
  readonly params: Local[] = [];
  readonly result: WasmType | undefined;
  /** Its index in the module, once added. */
  index = -1;
  readonly #locals: Local[] = [];
  readonly #code: Instr[] = [];
  readonly #open: Label[] = [];
  readonly #names = new Map<string, number>();

  constructor(name: string, result?: WasmType) {
    this.name = name;
    this.result = result;
  }

  #unique(name: string): string {
    const seen = this.#names.get(name) ?? 0;
    this.#names.set(name, seen + 1);
    return seen === 0 ? name : `${name}.${seen}`;
  }

  param(name: string, type: WasmType): Local {
    const local = { name: this.#unique(name), type, index: this.params.length };
    this.params.push(local);
    return local;
  }

  /** A new local; all parameters must have been declared. */
  local(name: string, type: WasmType): Local {
    const local = { name: this.#unique(name), type, index: this.params.length + this.#locals.length };
    this.#locals.push(local);
    return local;
  }

  op(name: InstructionName, operand?: InstructionOperand, offset = 0): void {
    this.#code.push({ name, operand, offset });
  }
  get(local: Local): void {
    this.op('local.get', local);
  }
  set(local: Local): void {
    this.op('local.set', local);
  }
  tee(local: Local): void {
    this.op('local.tee', local);
  }
  i32(v: number): void {
    this.op('i32.const', v | 0);
  }

  #nest(name: 'block' | 'loop' | 'if', label: string, result?: WasmType): Label {
    const opened = { name: this.#unique(label), depth: this.#open.length };
    this.#open.push(opened);
    this.#code.push({ name, operand: result, offset: 0, label: opened.name });
    return opened;
  }

  /** `build` between `block` and `end`; a branch to its label leaves it. */
  block(label: string, build: (label: Label) => void, result?: WasmType): void {
    build(this.#nest('block', label, result));
    this.#end();
  }
  /** `build` between `loop` and `end`; a branch to its label starts it again. */
  loop(label: string, build: (label: Label) => void): void {
    build(this.#nest('loop', label));
    this.#end();
  }
  /** Takes the condition from the stack. */
  when(then: () => void, otherwise?: () => void, result?: WasmType): void {
    this.#nest('if', 'if', result);
    then();
    if (otherwise) {
      this.op('else');
      otherwise();
    }
    this.#end();
  }
  #end(): void {
    this.op('end');
    this.#open.pop();
  }
  branch(to: Label, name: 'br' | 'br_if' = 'br'): void {
    this.#code.push({ name, operand: this.#open.length - 1 - to.depth, offset: 0, label: to.name });
  }

  /** The body as the code section holds it. */
  bytes(): number[] {
    const out: number[] = [];
    unsigned(this.#locals.length, out);
    for (const local of this.#locals) out.push(1, TYPE_CODE[local.type]);
    for (const instr of this.#code) encode(instr, out);
    out.push(...INSTRUCTIONS.end.code);
    return out;
  }

  text(): string {
    const param = (l: Local): string => ` (param $${l.name} ${l.type})`;
    const lines = [
      `  (func $${this.name}${this.params.map(param).join('')}${this.result ? ` (result ${this.result})` : ''}`,
    ];
    for (const local of this.#locals) lines.push(`    (local $${local.name} ${local.type})`);
    let depth = 2;
    for (const instr of this.#code) {
      if (instr.name === 'end' || instr.name === 'else') depth--;
      lines.push(`${'  '.repeat(depth)}${instructionText(instr)}`);
      if (instr.name === 'else' || INSTRUCTIONS[instr.name].immediate === 'block') depth++;
    }
    return `${lines.join('\n')})`;
  }
}

function encode(instr: Instr, out: number[]): void {
  const { code, immediate } = INSTRUCTIONS[instr.name];
  out.push(...code);
  const { operand } = instr;
  switch (immediate) {
    case 'none':
      return;
    case 'block':
      out.push(operand === undefined ? NO_TYPE : TYPE_CODE[operand as WasmType]);
      return;
    case 'local':
      unsigned((operand as Local).index, out);
      return;
    case 'func':
      unsigned((operand as FunctionBuilder).index, out);
      return;
    case 'label':
    case 'global':
    case 'lane':
      unsigned(operand as number, out);
      return;
    case 'memory':
    case 'memoryLane':
      unsigned(alignmentOf(instr.name), out);
      unsigned(instr.offset, out);
      if (immediate === 'memoryLane') out.push(operand as number);
      return;
    case 'i32':
    case 'i64':
      signed(BigInt(operand as number | bigint), out);
      return;
    case 'f32':
      floatBytes(operand as number, 4, out);
      return;
    case 'f64':
      floatBytes(operand as number, 8, out);
      return;
    case 'v128':
    case 'lanes':
      out.push(...(operand as Uint8Array | readonly number[]));
  }
}

function instructionText(instr: Instr): string {
  const { name, operand } = instr;
  switch (INSTRUCTIONS[name].immediate) {
    case 'none':
      return name;
    case 'block':
      return `${name} $${instr.label}${operand === undefined ? '' : ` (result ${operand as WasmType})`}`;
    case 'label':
      return `${name} $${instr.label}`;
    case 'local':
    case 'func':
      return `${name} $${(operand as Local | FunctionBuilder).name}`;
    case 'memory':
    case 'memoryLane': {
      const offset = instr.offset === 0 ? '' : ` offset=${instr.offset}`;
      return `${name}${offset}${operand === undefined ? '' : ` ${operand as number}`}`;
    }
    case 'v128': {
      const view = new DataView((operand as Uint8Array).slice().buffer);
      const word = (i: number): string =>
        `0x${view
          .getUint32(4 * i, true)
          .toString(16)
          .padStart(8, '0')}`;
      return `${name} i32x4 ${[0, 1, 2, 3].map(word).join(' ')}`;
    }
    case 'lanes':
      return `${name} ${(operand as readonly number[]).join(' ')}`;
    case 'f32':
    case 'f64':
      return `${name} ${floatText(operand as number)}`;
    default:
      return `${name} ${String(operand)}`;
  }
}

const floatText = (v: number): string =>
  Number.isNaN(v)
    ? 'nan'
    : Number.isFinite(v)
      ? Object.is(v, -0)
        ? '-0'
        : String(v)
      : v > 0
        ? 'inf'
        : '-inf';

/** The most a 32-bit memory can have, in pages of 64 KiB. */
export const MAXIMUM_PAGES = 65536;

/** A module: one imported shared memory, one mutable i32 global per name, functions, some of them exported. */
export class ModuleBuilder {
  readonly #functions: FunctionBuilder[] = [];
  readonly #exported: FunctionBuilder[] = [];
  readonly #globals: string[] = [];

  global(name: string): number {
    return this.#globals.push(name) - 1;
  }

  add(f: FunctionBuilder, options: { readonly exported?: boolean } = {}): FunctionBuilder {
    f.index = this.#functions.push(f) - 1;
    if (options.exported) this.#exported.push(f);
    return f;
  }

  bytes(): Uint8Array<ArrayBuffer> {
    const out: number[] = [0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0];
    const section = (id: number, content: readonly number[]): void => {
      out.push(id);
      unsigned(content.length, out);
      for (const byte of content) out.push(byte);
    };
    const list = <T>(items: readonly T[], write: (item: T, to: number[]) => void): number[] => {
      const to: number[] = [];
      unsigned(items.length, to);
      for (const item of items) write(item, to);
      return to;
    };
    const text = (s: string, to: number[]): void => {
      const bytes = new TextEncoder().encode(s);
      unsigned(bytes.length, to);
      to.push(...bytes);
    };
    section(
      1,
      list(this.#functions, (f, to) => {
        to.push(0x60);
        unsigned(f.params.length, to);
        for (const p of f.params) to.push(TYPE_CODE[p.type]);
        to.push(...(f.result ? [1, TYPE_CODE[f.result]] : [0]));
      }),
    );
    section(
      2,
      list(['memory'], (name, to) => {
        text('heddle', to);
        text(name, to);
        to.push(0x02, 0x03);
        unsigned(1, to);
        unsigned(MAXIMUM_PAGES, to);
      }),
    );
    section(
      3,
      list(this.#functions, (f, to) => unsigned(f.index, to)),
    );
    if (this.#globals.length > 0)
      section(
        6,
        list(this.#globals, (_name, to) => to.push(0x7f, 1, 0x41, 0, 0x0b)),
      );
    section(
      7,
      list(this.#exported, (f, to) => {
        text(f.name, to);
        to.push(0x00);
        unsigned(f.index, to);
      }),
    );
    section(
      10,
      list(this.#functions, (f, to) => {
        const body = f.bytes();
        unsigned(body.length, to);
        for (const byte of body) to.push(byte);
      }),
    );
    return Uint8Array.from(out);
  }

  /** The same module in WebAssembly's text form. */
  text(): string {
    const lines = ['(module', `  (import "heddle" "memory" (memory 1 ${MAXIMUM_PAGES} shared))`];
    for (const name of this.#globals) lines.push(`  (global $${name} (mut i32) (i32.const 0))`);
    for (const f of this.#functions) lines.push(f.text());
    for (const f of this.#exported) lines.push(`  (export "${f.name}" (func $${f.name}))`);
    return `${lines.join('\n')})\n`;
  }
}
