/** Tables of Parquet files. */
import { DataError } from 'heddle';
import { aString, type Rules, requireArgument, requireOptions } from 'heddle/internal/core/arguments.js';
import { type FileMetaData, parquetMetadataAsync, parquetRead, parquetSchema } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { readFileBytes } from '../read-text.js';
import { ColumnBuilder, type ColumnType, columnTypes, requireColumns, Table } from './table.js';

/** Options of `readParquet`. */
export interface ReadParquetOptions {
  /** How columns are read. Default: as numbers, if the first value that is there is one, else as categories. */
  readonly columns?: Readonly<Record<string, ColumnType>>;
}

const RULES: Rules<ReadParquetOptions> = { columns: columnTypes };

/**
 * A Parquet file (Apache Parquet, compressed by any of its codecs) as a table. Values that are null are missing.
 * @throws DataError naming the file, for one that is damaged, has no rows, or has lists or records in a column
 * @throws ArgumentError for `columns` that the file does not have
 */
export async function readParquet(path: string, options: ReadParquetOptions = {}): Promise<Table> {
  requireArgument('readParquet', 'path', path, aString);
  requireOptions('readParquet', options, RULES);
  const { columns = {} } = options;
  const bytes = await readFileBytes(path);
  if (bytes.length === 0) throw new DataError(`${path}: is empty, expected a Parquet file.`);
  const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer;
  const damaged = (error: unknown): DataError =>
    new DataError(`${path}: is damaged or not a Parquet file (${(error as Error).message}).`, {
      cause: error,
    });
  let metadata: FileMetaData;
  let names: string[];
  try {
    metadata = await parquetMetadataAsync(file);
    names = parquetSchema(metadata).children.map(({ element }) => element.name);
  } catch (error) {
    throw damaged(error);
  }
  requireColumns('readParquet', columns, names);
  const read = names.filter((name) => columns[name] !== 'skip');
  let rows: unknown[][] = [];
  try {
    await parquetRead({
      ...{ file, metadata, columns: read, compressors },
      onComplete: (all) => {
        rows = all;
      },
    });
  } catch (error) {
    throw damaged(error);
  }
  if (rows.length === 0) throw new DataError(`${path}: has no rows.`);
  const builders = read.map((name) => new ColumnBuilder(name, columns[name]));
  for (const [i, row] of rows.entries())
    for (const [c, builder] of builders.entries()) builder.add(row[c], () => `${path}, row ${i}`);
  const finished = builders.map((builder) => builder.finish()).filter((column) => column !== undefined);
  return new Table(path, rows.length, finished);
}
