/** `heddle data stats` of tables and arrays in files: what each column, or each array, is like. */
import { basename } from 'node:path';
import { DTYPES } from '../core/dtype.js';
import { formatShape } from '../core/shape.js';
import { decode } from '../engine/realize.js';
import { parseNpy, parseNpz, type StoredTensors } from '../io/index.js';
import { readBytes } from '../io/read.js';
import type { TableColumn } from './data-package.js';
import { table, whole } from './format.js';
import { neededPackage } from './packages.js';

/** Whether a path ends like a table's, or like that of NumPy's arrays. */
export const isTableFile = (path: string): boolean => /\.((csv|tsv)(\.gz)?|parquet|npy|npz)$/i.test(path);

/** Of the numbers that are there; std is that of all of them, not of a sample. */
interface NumberStatistics {
  readonly missing: number;
  readonly mean: number;
  readonly std: number;
  readonly min: number;
  readonly max: number;
}

interface ColumnStatistics {
  readonly name: string;
  readonly type: string;
  /** Of an array. */
  readonly shape?: readonly number[];
  readonly numbers?: NumberStatistics;
  readonly categories?: readonly { readonly name: string; readonly count: number }[];
  readonly missing: number;
}

const say = (text: string): void => void process.stdout.write(`${text}\n`);

/** Print what a file holds. @throws DataError, FileError for a file that cannot be read */
export async function tableStats(path: string, { json = false }: { readonly json?: boolean }): Promise<void> {
  const isArrays = /\.np[yz]$/i.test(path);
  const read = isArrays ? await arraysIn(path) : await columnsIn(path);
  const { rows, columns } = read;
  if (json) {
    say(JSON.stringify({ name: path, ...(rows !== undefined && { rows }), columns }, null, 2));
    return;
  }
  say(`data  ${path}`);
  if (rows !== undefined) say(`rows  ${whole(rows)}`);
  const numbers = columns.filter((column) => column.numbers);
  if (numbers.length > 0)
    say(
      `\n${table(
        [
          isArrays ? 'array' : 'number',
          ...(isArrays ? ['dtype', 'shape'] : []),
          'missing',
          'mean',
          'std',
          'min',
          'max',
        ],
        numbers.map(({ name, type, shape, numbers: own }) => [
          ...[name, ...(isArrays ? [type, formatShape(shape!)] : []), whole(own!.missing)],
          ...[own!.mean, own!.std, own!.min, own!.max].map((value) => String(Number(value.toPrecision(5)))),
        ]),
      )}`,
    );
  const categories = columns.filter((column) => column.categories);
  if (categories.length > 0)
    say(
      `\n${table(
        ['category', 'missing', 'different', 'most frequent'],
        categories.map(({ name, missing, categories: own }) => [
          ...[name, whole(missing), whole(own!.length)],
          own!
            .slice(0, 3)
            .map((category) => `${category.name} (${whole(category.count)})`)
            .join(', '),
        ]),
      )}`,
    );
}

interface FileStatistics {
  readonly rows?: number;
  readonly columns: readonly ColumnStatistics[];
}

async function columnsIn(path: string): Promise<FileStatistics> {
  const { readCsv, readParquet } = await neededPackage('heddle-data', `heddle data stats ${path}`);
  const delimiter = /\.tsv(\.gz)?$/i.test(path) ? '\t' : ',';
  const { length, columns } = await (/\.parquet$/i.test(path)
    ? readParquet(path)
    : readCsv(path, { delimiter }));
  return { rows: length, columns: columns.map(ofColumn) };
}

function ofColumn(column: TableColumn): ColumnStatistics {
  const { name, type } = column;
  if (column.type === 'number') {
    const numbers = ofNumbers(column.values);
    return { name, type, numbers, missing: numbers.missing };
  }
  const counts = column.categories.map((category) => ({ name: category, count: 0 }));
  let missing = 0;
  for (const code of column.codes) {
    if (code < 0) missing++;
    else counts[code]!.count++;
  }
  return { name, type, categories: counts.sort((a, b) => b.count - a.count), missing };
}

async function arraysIn(path: string): Promise<FileStatistics> {
  const bytes = await readBytes(path);
  const arrays: StoredTensors = /\.npz$/i.test(path)
    ? parseNpz(bytes, path)
    : { [basename(path)]: parseNpy(bytes, path) };
  return {
    columns: Object.entries(arrays).map(([name, { dtype, shape, data }]) => {
      // A copy begins where its numbers may.
      const numbers = ofNumbers(decode(Uint8Array.from(data), DTYPES[dtype]));
      return { name, type: dtype, shape, numbers, missing: numbers.missing };
    }),
  };
}

/** NaN counts as missing. */
function ofNumbers(values: ArrayLike<number | bigint>): NumberStatistics {
  let [missing, sum, min, max] = [0, 0, Infinity, -Infinity];
  for (let i = 0; i < values.length; i++) {
    const value = Number(values[i]);
    if (Number.isNaN(value)) missing++;
    else {
      sum += value;
      min = Math.min(min, value);
      max = Math.max(max, value);
    }
  }
  const count = values.length - missing;
  if (count === 0) return { missing, mean: Number.NaN, std: Number.NaN, min: Number.NaN, max: Number.NaN };
  const mean = sum / count;
  let squares = 0;
  for (let i = 0; i < values.length; i++) {
    const value = Number(values[i]);
    if (!Number.isNaN(value)) squares += (value - mean) ** 2;
  }
  return { missing, mean, std: Math.sqrt(squares / count), min, max };
}
