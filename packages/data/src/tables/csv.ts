/** Tables of CSV files. */
import { pipeline } from 'node:stream';
import { CsvError, type Info, parse } from 'csv-parse';
import { DataError } from 'heddle';
import {
  aBoolean,
  aString,
  listOf,
  type Rules,
  requireArgument,
  requireOptions,
} from 'heddle/internal/core/arguments.js';
import { streamOf, unreadable } from '../read-text.js';
import { ColumnBuilder, type ColumnType, columnTypes, requireColumns, Table } from './table.js';

/** Options of `readCsv`. */
export interface ReadCsvOptions {
  /** Whether the first row has the names of the columns, or these names. Default: true; without, they are '0', '1' … */
  readonly header?: boolean | readonly string[];
  /** What is between two values. Default: ','. */
  readonly delimiter?: string;
  /** How columns are read. Default: as numbers, if the first value that is there is one, else as categories. */
  readonly columns?: Readonly<Record<string, ColumnType>>;
}

const RULES: Rules<ReadCsvOptions> = {
  header: {
    must: 'true, false or a list of names',
    holds: (v) => aBoolean.holds(v) || listOf(aString).holds(v),
  },
  delimiter: { must: 'a text that is not empty', holds: (v) => typeof v === 'string' && v !== '' },
  columns: columnTypes,
};

/** The most characters of a row: a quote that is never closed would make one row of the rest. */
const LONGEST_ROW = 2 ** 24;

/**
 * A CSV file (RFC 4180) as a table, plain or `.gz`, UTF-8, read piece by piece. An empty value, NA, N/A, NaN, null, None and ?
 * are missing; the `TableEncoder` says what is done about them.
 * @throws DataError naming the file and the line: for a row with more or fewer values than the header, a value that is
 * not a number where the ones before it are, two columns of one name, or no rows
 * @throws ArgumentError for an option outside its range, or `columns` that the file does not have
 */
export async function readCsv(path: string, options: ReadCsvOptions = {}): Promise<Table> {
  requireArgument('readCsv', 'path', path, aString);
  requireOptions('readCsv', options, RULES);
  const { header = true, delimiter = ',', columns = {} } = options;
  const parser = parse({
    ...{ delimiter, bom: true, info: true, trim: true },
    ...{ relax_column_count: true, skip_empty_lines: true, max_record_size: LONGEST_ROW },
  });
  const lines: number[] = [];
  let builders: ColumnBuilder[] | undefined;
  const begin = (names: readonly string[], line: number): ColumnBuilder[] => {
    const twice = names.find((name, i) => names.indexOf(name) < i);
    if (twice !== undefined)
      throw new DataError(`${path}:${line}: two columns are named '${twice}'. Rename one.`);
    requireColumns('readCsv', columns, names);
    return names.map((name) => new ColumnBuilder(name, columns[name]));
  };
  if (Array.isArray(header)) builders = begin(header, 1);
  try {
    // Its failure is that of the parser, which is awaited.
    pipeline(streamOf(path), parser, () => {});
    for await (const { record, info } of parser as AsyncIterable<{ record: string[]; info: Info }>) {
      const line = info.lines;
      if (!builders) {
        builders = begin(header === true ? record : record.map((_, i) => String(i)), line);
        if (header === true) continue;
      }
      if (record.length !== builders.length)
        throw new DataError(
          `${path}:${line}: has ${record.length} values, must have ${builders.length} as the first row has. Is a value with a comma without quotes?`,
        );
      lines.push(line);
      for (const [i, builder] of builders.entries()) builder.add(record[i], () => `${path}:${line}`);
    }
  } catch (error) {
    throw explained(path, error);
  }
  if (!builders) throw new DataError(`${path}: is empty, expected a table.`);
  if (lines.length === 0) throw new DataError(`${path}: has no rows below its header.`);
  const read = builders.map((builder) => builder.finish()).filter((column) => column !== undefined);
  return new Table(path, lines.length, read, Int32Array.from(lines));
}

function explained(path: string, error: unknown): unknown {
  if (error instanceof CsvError) {
    const [what] = error.message.split('\n');
    return new DataError(`${path}:${String(error.lines ?? 1)}: ${what}`, { cause: error });
  }
  const { code } = error as NodeJS.ErrnoException;
  return code === undefined || code.startsWith('HEDDLE') ? error : unreadable(path, error);
}
