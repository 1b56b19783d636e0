/** Tables: named columns of numbers or categories. */
import { ArgumentError, DataError } from 'heddle';
import { oneOf, type Rule, recordOf, shown, unknownName } from 'heddle/internal/core/arguments.js';

/** How a column is read: `skip` leaves it out. */
export type ColumnType = 'number' | 'category' | 'skip';

/** A column of numbers. */
export interface NumberColumn {
  /** As the header has it. */
  readonly name: string;
  /** What tells it from a column of categories. */
  readonly type: 'number';
  /** Of each row; NaN where it is missing. */
  readonly values: Float64Array;
}

/** A column of texts that stand for kinds. */
export interface CategoryColumn {
  /** As the header has it. */
  readonly name: string;
  /** What tells it from a column of numbers. */
  readonly type: 'category';
  /** The different texts, sorted; as numbers where all are numbers. */
  readonly categories: readonly string[];
  /** Of each row its place in `categories`; −1 where it is missing. */
  readonly codes: Int32Array;
}

/** A column of a `Table`. */
export type Column = NumberColumn | CategoryColumn;

/** Rows of a file, column by column. `readCsv` and `readParquet` make one, a `TableEncoder` makes inputs and targets of it. */
export class Table {
  /** The file. */
  readonly source: string;
  /** How many rows there are. */
  readonly length: number;
  /** In the order of the file. */
  readonly columns: readonly Column[];
  readonly #lines: Int32Array | undefined;

  /** @internal @param lines of each row where it stands in the file; without it, rows are counted from 0 */
  constructor(source: string, length: number, columns: readonly Column[], lines?: Int32Array) {
    this.source = source;
    this.length = length;
    this.columns = columns;
    this.#lines = lines;
  }

  /** The column of this name. @throws DataError naming the file and its columns */
  column(name: string): Column {
    const column = this.columns.find((c) => c.name === name);
    if (column) return column;
    const names = this.columns.map((c) => c.name);
    const place = this.#lines ? `${this.source}:1` : this.source;
    throw new DataError(`${place}: ${unknownName('column', 'column', name, names).replace('[column] ', '')}`);
  }

  /** Where a row (counted from 0) stands in its file, for messages: `houses.csv:12`. */
  place(row: number): string {
    return this.#lines ? `${this.source}:${this.#lines[row]}` : `${this.source}, row ${row}`;
  }
}

/** What stands for nothing, in files of texts. */
export const MISSING: ReadonlySet<string> = new Set([
  '',
  'NA',
  'N/A',
  'NaN',
  'nan',
  'null',
  'NULL',
  'None',
  '?',
]);

const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;

export const columnTypes: Rule = recordOf(
  oneOf('number', 'category', 'skip'),
  "a record of 'number', 'category' or 'skip'",
);

/** A column that grows row by row. What its first value is like decides its type, unless that is given. */
export class ColumnBuilder {
  readonly name: string;
  #type: ColumnType | undefined;
  readonly #numbers: number[] = [];
  readonly #codes: number[] = [];
  readonly #categories = new Map<string, number>();

  constructor(name: string, type: ColumnType | undefined) {
    this.name = name;
    this.#type = type;
  }

  /** @param value a text of a CSV file, or what Parquet has; null where it is missing @throws DataError */
  add(value: unknown, place: () => string): void {
    if (this.#type === 'skip') return;
    const isMissing = value == null || (typeof value === 'string' && MISSING.has(value));
    if (isMissing) {
      this.#numbers.push(Number.NaN);
      this.#codes.push(-1);
      return;
    }
    this.#type ??= Number.isNaN(numberOf(value)) ? 'category' : 'number';
    if (this.#type === 'number') this.#numbers.push(this.#number(value, place));
    else this.#codes.push(this.#code(value, place));
  }

  #number(value: unknown, place: () => string): number {
    const number = numberOf(value);
    if (!Number.isNaN(number)) return number;
    throw new DataError(
      `${place()}: '${this.name}' is ${shown(value)}, must be a number as in the rows before. Correct it, or read the column as categories: columns: { ${this.name}: 'category' }.`,
    );
  }

  #code(value: unknown, place: () => string): number {
    if (typeof value === 'object' && !(value instanceof Date))
      throw new DataError(
        `${place()}: '${this.name}' is ${shown(value)}, must be a number or a text. Leave the column out: columns: { ${this.name}: 'skip' }.`,
      );
    const text = value instanceof Date ? value.toISOString() : String(value);
    const code = this.#categories.get(text) ?? this.#categories.size;
    this.#categories.set(text, code);
    return code;
  }

  /** Nothing for a column that is left out. */
  finish(): Column | undefined {
    const { name } = this;
    if (this.#type === 'skip') return undefined;
    if (this.#type !== 'category') {
      const values = Float64Array.from(this.#numbers);
      return { name, type: 'number', values };
    }
    const found = [...this.#categories.keys()];
    const areNumbers = found.every((text) => NUMBER.test(text));
    const categories = found.toSorted(areNumbers ? (a, b) => Number(a) - Number(b) : undefined);
    const places = new Map(categories.map((text, i) => [text, i]));
    const codes = Int32Array.from(this.#codes, (code) => (code < 0 ? -1 : places.get(found[code]!)!));
    return { name, type: 'category', categories, codes };
  }
}

/** NaN for what is not a number. */
function numberOf(value: unknown): number {
  if (typeof value === 'number' || typeof value === 'bigint') return Number(value);
  return typeof value === 'string' && NUMBER.test(value) ? Number(value) : Number.NaN;
}

/** @throws ArgumentError for types of columns that are not there */
export function requireColumns(op: string, types: object, names: readonly string[]): void {
  for (const name of Object.keys(types))
    if (!names.includes(name)) throw new ArgumentError(unknownName(op, 'column', name, names));
}
