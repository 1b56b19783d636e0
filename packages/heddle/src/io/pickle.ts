/**
 * Python's pickles, as far as files of tensors need them: a stack machine whose instructions make dictionaries, lists, tuples,
 * texts and numbers. What would run code (a call, an object's state) is handed to the caller, who decides what it makes.
 * Source: pickletools of Python's standard library, protocols 2 to 4.
 */

/** A class or function that a pickle names. */
export interface Reference {
  readonly module: string;
  readonly name: string;
}

/** What a pickle says of something that is stored beside it. */
export type PersistentId = unknown;

/** What the caller makes of what is not plain data. */
export interface Maker {
  readonly fail: (message: string) => never;
  /** Something that is stored outside of the pickle. */
  readonly persistent: (id: PersistentId) => unknown;
  /** A class or function called. It must not call anything that the pickle names. */
  readonly call: (what: Reference, args: readonly unknown[]) => unknown;
}

/** Marks a place in the stack. */
const MARK = Symbol('mark');

const isReference = (value: unknown): value is Reference =>
  typeof value === 'object' && value !== null && 'module' in value && 'name' in value;

/** The bytes of a pickle, from front to back. */
class Reader {
  readonly #bytes: Uint8Array;
  readonly #fail: Maker['fail'];
  readonly view: DataView;
  /** The next byte. */
  at = 0;

  constructor(bytes: Uint8Array, fail: Maker['fail']) {
    this.#bytes = bytes;
    this.#fail = fail;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** Where the next `n` bytes begin. */
  take(n: number): number {
    if (n < 0 || this.at + n > this.#bytes.length) return this.#fail(`truncated at byte ${this.at}.`);
    this.at += n;
    return this.at - n;
  }
  byte(): number {
    return this.view.getUint8(this.take(1));
  }
  count(): number {
    return this.view.getUint32(this.take(4), true);
  }
  text(n: number): string {
    const from = this.take(n);
    return new TextDecoder().decode(this.#bytes.subarray(from, from + n));
  }
  line(): string {
    const end = this.#bytes.indexOf(0x0a, this.at);
    if (end < 0) return this.#fail(`truncated at byte ${this.at}.`);
    const value = this.text(end - this.at);
    this.at++;
    return value;
  }
  /** A signed little-endian integer of n bytes. */
  integer(n: number): number | bigint {
    let value = 0n;
    const from = this.take(n);
    for (let i = n - 1; i >= 0; i--) value = (value << 8n) | BigInt(this.#bytes[from + i]!);
    const signed = BigInt.asIntN(8 * Math.max(n, 1), value);
    return Number.isSafeInteger(Number(signed)) ? Number(signed) : signed;
  }
}

/** Plain data: Maps, arrays, strings, numbers, bigints, booleans, null, and what `maker` makes. */
export function unpickle(bytes: Uint8Array, maker: Maker): unknown {
  const reader = new Reader(bytes, maker.fail);
  const stack: unknown[] = [];
  const memo = new Map<number, unknown>();
  const fail = (message: string): never => maker.fail(`${message} at byte ${reader.at}.`);

  const pop = (): unknown => (stack.length > 0 ? stack.pop() : fail('the stack is empty'));
  const top = (): unknown => (stack.length > 0 ? stack[stack.length - 1] : fail('the stack is empty'));
  const popMark = (): unknown[] => {
    const mark = stack.lastIndexOf(MARK);
    if (mark < 0) return fail('there is no mark');
    const items = stack.splice(mark);
    return items.slice(1);
  };
  const list = (): unknown[] => {
    const value = top();
    return Array.isArray(value) ? value : fail('what is appended to is not a list');
  };
  const setItems = (items: readonly unknown[]): void => {
    const value = top();
    const map = value instanceof Map ? value : fail('what gets items is not a dictionary');
    for (let i = 0; i + 1 < items.length; i += 2) map.set(items[i], items[i + 1]);
  };
  const call = (): unknown => {
    const args = pop();
    const what = pop();
    if (!isReference(what) || !Array.isArray(args)) return fail('a call of nothing that is named');
    return maker.call(what, args);
  };
  const instructions: Readonly<Record<number, () => void>> = {
    // MARK, POP, POP_MARK
    40: () => stack.push(MARK),
    48: () => void pop(),
    49: () => void popMark(),
    // NONE, NEWTRUE, NEWFALSE
    78: () => stack.push(null),
    136: () => stack.push(true),
    137: () => stack.push(false),
    // BININT, BININT1, BININT2, LONG1, BINFLOAT
    74: () => stack.push(reader.integer(4)),
    75: () => stack.push(reader.byte()),
    77: () => stack.push(reader.view.getUint16(reader.take(2), true)),
    138: () => stack.push(reader.integer(reader.byte())),
    71: () => stack.push(reader.view.getFloat64(reader.take(8), false)),
    // BINUNICODE, SHORT_BINUNICODE, BINSTRING, SHORT_BINSTRING
    88: () => stack.push(reader.text(reader.count())),
    140: () => stack.push(reader.text(reader.byte())),
    84: () => stack.push(reader.text(reader.count())),
    85: () => stack.push(reader.text(reader.byte())),
    // EMPTY_LIST, APPEND, APPENDS, LIST
    93: () => stack.push([]),
    97: () => {
      const value = pop();
      list().push(value);
    },
    101: () => {
      const items = popMark();
      const to = list();
      for (const item of items) to.push(item);
    },
    108: () => stack.push(popMark()),
    // EMPTY_TUPLE, TUPLE, TUPLE1, TUPLE2, TUPLE3
    41: () => stack.push([]),
    116: () => stack.push(popMark()),
    133: () => stack.push([pop()]),
    134: () => stack.push([pop(), pop()].reverse()),
    135: () => stack.push([pop(), pop(), pop()].reverse()),
    // EMPTY_DICT, SETITEM, SETITEMS, DICT, EMPTY_SET
    125: () => stack.push(new Map()),
    115: () => setItems([pop(), pop()].reverse()),
    117: () => setItems(popMark()),
    100: () => {
      const items = popMark();
      stack.push(new Map());
      setItems(items);
    },
    143: () => stack.push([]),
    // BINGET, LONG_BINGET, BINPUT, LONG_BINPUT, MEMOIZE
    104: () => stack.push(memo.get(reader.byte())),
    106: () => stack.push(memo.get(reader.count())),
    113: () => memo.set(reader.byte(), top()),
    114: () => memo.set(reader.count(), top()),
    148: () => memo.set(memo.size, top()),
    // GLOBAL, STACK_GLOBAL
    99: () => stack.push({ module: reader.line(), name: reader.line() } satisfies Reference),
    147: () => {
      const [name, module] = [pop(), pop()];
      stack.push({ module: String(module), name: String(name) } satisfies Reference);
    },
    // REDUCE, NEWOBJ, BINPERSID
    82: () => stack.push(call()),
    129: () => stack.push(call()),
    81: () => stack.push(maker.persistent(pop())),
    // BUILD: the state of an object, such as the attributes of an OrderedDict, is not data.
    98: () => void pop(),
    // PROTO, FRAME
    128: () => {
      const version = reader.byte();
      if (version < 2 || version > 5) fail(`protocol ${version}, expected 2 to 5,`);
    },
    149: () => void reader.take(8),
  };

  for (;;) {
    const code = reader.byte();
    if (code === 0x2e) return pop();
    const instruction = instructions[code];
    if (!instruction) return fail(`instruction 0x${code.toString(16)} is not supported,`);
    instruction();
  }
}
