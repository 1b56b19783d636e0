/** Plain objects as text that is read back: what was shared is shared again, and dtypes are the records they were. */
import { DTYPES, type DType } from './dtype.js';

/**
 * Each object is written once, in a line of a table, after those it is made of: the number of its keys (−1: an array),
 * then its values. A text among them stands for: `#7` line 7 · `:f32` a dtype · `=text` a text · `~-0` a number or
 * bigint that JSON has not.
 */
type Line = readonly [keys: number, ...values: unknown[]];

interface Table {
  readonly keys: readonly (readonly string[])[];
  readonly lines: readonly Line[];
}

const DTYPE_RECORDS: ReadonlySet<unknown> = new Set(Object.values(DTYPES));

/**
 * Writes objects one after the other, each as a text in one line; later ones may share parts with earlier ones.
 * Properties that are undefined are left out.
 */
export class ObjectWriter {
  readonly #numbers = new Map<object, number>();

  write(whole: object): string {
    const keys: string[][] = [];
    const numberOfKeys = new Map<string, number>();
    const lines: Line[] = [];
    const value = (v: unknown): unknown => {
      if (typeof v === 'string') return `=${v}`;
      if (typeof v === 'bigint') return `~${v}n`;
      if (typeof v === 'number' && (!Number.isFinite(v) || Object.is(v, -0)))
        return `~${Object.is(v, -0) ? '-0' : v}`;
      return typeof v === 'object' && v !== null ? object(v) : v;
    };
    const object = (o: object): string => {
      if (DTYPE_RECORDS.has(o)) return `:${(o as DType).name}`;
      const known = this.#numbers.get(o);
      if (known !== undefined) return `#${known}`;
      lines.push(Array.isArray(o) ? [-1, ...o.map(value)] : record(o));
      this.#numbers.set(o, this.#numbers.size);
      return `#${this.#numbers.size - 1}`;
    };
    const record = (o: object): Line => {
      const values = o as Readonly<Record<string, unknown>>;
      const names = Object.keys(o);
      const line: [number, ...unknown[]] = [0];
      let text = '';
      for (const name of names) {
        const v = values[name];
        if (v === undefined) continue;
        text += `${name},`;
        line.push(value(v));
      }
      line[0] = numberOfKeys.get(text) ?? keys.push(names.filter((name) => values[name] !== undefined)) - 1;
      numberOfKeys.set(text, line[0]);
      return line;
    };
    object(whole);
    return JSON.stringify({ keys, lines } satisfies Table);
  }
}

/** Reads what an `ObjectWriter` wrote, in the same order. */
export class ObjectReader {
  readonly #objects: unknown[] = [];

  read(text: string): unknown {
    const { keys, lines } = JSON.parse(text) as Table;
    for (const line of lines) this.#objects.push(line[0] < 0 ? this.#array(line) : this.#record(line, keys));
    return this.#objects.at(-1);
  }

  #array(line: Line): unknown[] {
    const array = new Array<unknown>(line.length - 1);
    for (let i = 1; i < line.length; i++) array[i - 1] = this.#value(line[i]);
    return array;
  }

  // A loop over the line itself: by destructuring and Object.fromEntries it takes five times as long.
  #record(line: Line, keys: Table['keys']): Record<string, unknown> {
    const names = keys[line[0]]!;
    const record: Record<string, unknown> = {};
    for (let i = 1; i < line.length; i++) record[names[i - 1]!] = this.#value(line[i]);
    return record;
  }

  #value(v: unknown): unknown {
    if (typeof v !== 'string') return v;
    const rest = v.slice(1);
    switch (v[0]) {
      case '#':
        return this.#objects[Number(rest)];
      case ':':
        return DTYPES[rest as DType['name']];
      case '~':
        return rest.endsWith('n') ? BigInt(rest.slice(0, -1)) : Number(rest);
      default:
        return rest;
    }
  }
}
