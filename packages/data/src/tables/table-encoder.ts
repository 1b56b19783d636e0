/** Inputs and targets of tables. */
import { ArgumentError, DataError, type Shape, type Tensor, tensor } from 'heddle';
import { TensorDataset } from 'heddle/data';
import {
  aBoolean,
  aString,
  instance,
  listOf,
  oneOf,
  type Rules,
  requireArgument,
  required,
  requireOptions,
  shown,
} from 'heddle/internal/core/arguments.js';
import { type CategoryColumn, type Column, type NumberColumn, Table } from './table.js';

/** Options of a `TableEncoder`. */
export interface TableEncoderOptions {
  /** The column to predict, a number or a category; or several, all of them numbers. */
  readonly target: string | readonly string[];
  /** The columns to predict it from. Default: all others. */
  readonly inputs?: readonly string[];
  /**
   * What becomes of a row in which a value is missing: `error` (default), `drop` leaves it out, `mean` takes the column's mean
   * in the training table, and of a category none. A target is never filled in: where it is missing, `mean` is `error`.
   */
  readonly missing?: 'error' | 'drop' | 'mean';
  /** Whether numbers of inputs get mean 0 and standard deviation 1, those of the training table. Default: false. */
  readonly standardize?: boolean;
}

const RULES: Rules<TableEncoderOptions> = {
  target: required({
    must: 'the name of a column, or a list of names',
    holds: (v) => aString.holds(v) || (listOf(aString).holds(v) && (v as string[]).length > 0),
  }),
  inputs: listOf(aString),
  missing: oneOf('error', 'drop', 'mean'),
  standardize: aBoolean,
};

/** What a column becomes. */
interface Encoding {
  readonly name: string;
  /** Of a category: one number for each. */
  readonly categories?: readonly string[];
  readonly mean: number;
  /** What is subtracted, and what is divided by after that. */
  readonly shift: number;
  readonly std: number;
}

/** Examples of a table: inputs f32 (N, features); targets i32 (N) for classes, f32 (N, targets) for numbers. */
export type TableDataset = TensorDataset<Tensor<Shape, 'f32'>, Tensor<Shape, 'f32' | 'i32'>>;

/**
 * Makes data sets of tables: a number becomes an input, a category as many as there are categories, one of them 1 and the
 * others 0. What it knows it has from the training table; other tables are encoded in the same way.
 */
export class TableEncoder {
  /** What each input is: the name of a column, or `column=category`. */
  readonly features: readonly string[];
  /** The names of the classes in the order of their labels, if the target is a category. */
  readonly classes: readonly string[] | undefined;
  readonly #inputs: readonly Encoding[];
  readonly #targets: readonly Encoding[];
  readonly #missing: 'error' | 'drop' | 'mean';

  /**
   * @param train the table to learn categories, means and deviations from
   * @throws DataError for a column that is not there; ArgumentError
   */
  constructor(train: Table, options: TableEncoderOptions) {
    requireArgument('TableEncoder', 'train', train, instance(Table, 'a Table'));
    requireOptions('TableEncoder', options, RULES);
    const { target, missing = 'error', standardize = false } = options;
    const targets = typeof target === 'string' ? [target] : target;
    const inputs =
      options.inputs ?? train.columns.map(({ name }) => name).filter((n) => !targets.includes(n));
    if (inputs.length === 0) throw new ArgumentError('[TableEncoder] inputs is empty, must name a column.');
    this.#missing = missing;
    this.#inputs = inputs.map((name) => encodingOf(train.column(name), standardize));
    this.#targets = targets.map((name) => encodingOf(train.column(name), false));
    this.features = this.#inputs.flatMap(
      ({ name, categories }) => categories?.map((category) => `${name}=${category}`) ?? [name],
    );
    const categories = this.#targets.find((encoding) => encoding.categories);
    if (categories && targets.length > 1)
      throw new ArgumentError(
        `[TableEncoder] target has '${categories.name}', a category, and others: must be one category, or numbers.`,
      );
    this.classes = categories?.categories;
  }

  /**
   * The examples of a table.
   * @throws DataError naming file and line for a value that is missing or a category that the training table does not have
   */
  encode(table: Table): TableDataset {
    requireArgument('encode', 'table', table, instance(Table, 'a Table'));
    const inputs = this.#inputs.map((encoding) => ({ encoding, column: table.column(encoding.name) }));
    const targets = this.#targets.map((encoding) => ({ encoding, column: table.column(encoding.name) }));
    const all = [...inputs, ...targets];
    for (const { encoding, column } of all) requireType(table, encoding, column);
    const rows = Array.from({ length: table.length }, (_, row) => row).filter(
      (row) => this.#missing !== 'drop' || !all.some(({ column }) => isMissing(column, row)),
    );
    if (rows.length === 0) throw new DataError(`${table.source}: every row has a missing value.`);
    const width = this.features.length;
    const values = new Float32Array(rows.length * width);
    const labels = new (this.classes ? Int32Array : Float32Array)(rows.length * targets.length);
    for (const [i, row] of rows.entries()) {
      let at = i * width;
      for (const { encoding, column } of inputs) {
        if (isMissing(column, row) && this.#missing !== 'mean') throw missingIn(table, row, encoding.name);
        if (encoding.categories) {
          const place = placeOf(table, row, encoding.categories, column as CategoryColumn);
          if (place >= 0) values[at + place] = 1;
          at += encoding.categories.length;
        } else {
          const value = (column as NumberColumn).values[row]!;
          values[at++] = ((Number.isNaN(value) ? encoding.mean : value) - encoding.shift) / encoding.std;
        }
      }
      for (const [t, { encoding, column }] of targets.entries()) {
        if (isMissing(column, row)) throw missingIn(table, row, encoding.name);
        labels[i * targets.length + t] = encoding.categories
          ? placeOf(table, row, encoding.categories, column as CategoryColumn)
          : (column as NumberColumn).values[row]!;
      }
    }
    return new TensorDataset(
      tensor(values, { shape: [rows.length, width] }),
      tensor(labels, { shape: this.classes ? [rows.length] : [rows.length, targets.length] }) as Tensor<
        Shape,
        'f32' | 'i32'
      >,
    );
  }
}

function encodingOf(column: Column, standardize: boolean): Encoding {
  const { name } = column;
  if (column.type === 'category') return { name, categories: column.categories, mean: 0, shift: 0, std: 1 };
  const values = column.values.filter((value) => !Number.isNaN(value));
  const count = Math.max(1, values.length);
  const mean = values.reduce((sum, value) => sum + value, 0) / count;
  const deviation = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / count);
  return standardize
    ? { name, mean, shift: mean, std: deviation > 0 ? deviation : 1 }
    : { name, mean, shift: 0, std: 1 };
}

const isMissing = (column: Column, row: number): boolean =>
  column.type === 'number' ? Number.isNaN(column.values[row]!) : column.codes[row]! < 0;

const missingIn = (table: Table, row: number, name: string): DataError =>
  new DataError(
    `${table.place(row)}: '${name}' is missing. Fill it in, or say what to do: missing: 'drop', or 'mean' for inputs.`,
  );

/** −1 where it is missing. */
function placeOf(
  table: Table,
  row: number,
  known: readonly string[],
  { name, categories, codes }: CategoryColumn,
): number {
  const code = codes[row]!;
  if (code < 0) return -1;
  const place = known === categories ? code : known.indexOf(categories[code]!);
  if (place >= 0) return place;
  throw new DataError(
    `${table.place(row)}: '${name}' is ${shown(categories[code])}, which the training table does not have.`,
  );
}

function requireType({ source }: Table, { name, categories }: Encoding, { type }: Column): void {
  const expected = categories ? 'category' : 'number';
  if (type === expected) return;
  throw new DataError(
    `${source}: '${name}' is a ${type} here, and a ${expected} in the training table. Read it as such: columns: { ${name}: '${expected}' }.`,
  );
}
