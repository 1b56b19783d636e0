import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { DataError } from 'heddle';
import { type ReadCsvOptions, readCsv, readParquet, type Table, TableEncoder } from 'heddle-data';
import { temporaryFolder } from './image-files.js';

const folder = temporaryFolder();
const CSV =
  '\ufeffarea,rooms,town,new,price\n50,2,Ulm,true,100\n80.5,3,"Köln",false,200\n,4,Ulm,true,300\n120,5,,true,400\n';

const csv = (text: string | Uint8Array, options?: ReadCsvOptions, name = 'houses.csv'): Promise<Table> => {
  writeFileSync(join(folder, name), text);
  return readCsv(join(folder, name), options);
};

const golden = (name: string): string =>
  fileURLToPath(new URL(`../../tests/golden/${name}`, import.meta.url));

const refused = async (table: Promise<unknown>, message: string): Promise<void> =>
  assert.rejects(table, (error: Error) => {
    assert.ok(error instanceof DataError, error.stack);
    assert.equal(error.message.replace(`${folder}/`, ''), message);
    return true;
  });

test('CSV and Parquet of all codecs are the same table', async () => {
  const expected = (await csv(CSV)).columns;
  assert.deepEqual(expected, [
    { name: 'area', type: 'number', values: Float64Array.of(50, 80.5, Number.NaN, 120) },
    { name: 'rooms', type: 'number', values: Float64Array.of(2, 3, 4, 5) },
    { name: 'town', type: 'category', categories: ['Köln', 'Ulm'], codes: Int32Array.of(1, 0, 1, -1) },
    { name: 'new', type: 'category', categories: ['false', 'true'], codes: Int32Array.of(1, 0, 1, 1) },
    { name: 'price', type: 'number', values: Float64Array.of(100, 200, 300, 400) },
  ]);
  assert.deepEqual((await csv(gzipSync(CSV), {}, 'houses.csv.gz')).columns, expected);
  for (const codec of ['snappy', 'zstd', 'gzip', 'none'])
    assert.deepEqual((await readParquet(golden(`houses-${codec}.parquet`))).columns, expected, codec);
  const plain = await csv('1;x\n2;y\n', { header: false, delimiter: ';', columns: { '0': 'category' } });
  assert.deepEqual(
    plain.columns.map(({ name, type }) => [name, type]),
    [
      ['0', 'category'],
      ['1', 'category'],
    ],
  );
  const some = await csv('10,b\n9,a\n', {
    header: ['n', 'skipped'],
    columns: { n: 'category', skipped: 'skip' },
  });
  assert.deepEqual(some.columns, [
    { name: 'n', type: 'category', categories: ['9', '10'], codes: Int32Array.of(1, 0) },
  ]);
});

test('tables become inputs and targets, and others are encoded as the first was', async () => {
  const table = await csv(CSV);
  const encoder = new TableEncoder(table, { target: 'price', missing: 'mean', standardize: true });
  assert.deepEqual(encoder.features, ['area', 'rooms', 'town=Köln', 'town=Ulm', 'new=false', 'new=true']);
  assert.equal(encoder.classes, undefined);
  const { inputs, targets } = encoder.encode(table);
  const rows = [...(await inputs.data())].map((v) => Math.round(v * 1000) / 1000);
  assert.deepEqual(rows.slice(0, 6), [-1.169, -1.342, 0, 1, 0, 1]);
  assert.deepEqual(rows.slice(12), [0, 0.447, 0, 1, 0, 1, 1.274, 1.342, 0, 0, 0, 1]);
  assert.deepEqual(
    [targets.shape, targets.dtype.name, [...(await targets.data())]],
    [[4, 1], 'f32', [100, 200, 300, 400]],
  );
  const other = encoder.encode(await csv('town,new,area,rooms,price\nUlm,false,50,2,7\n'));
  assert.deepEqual(
    [...(await other.inputs.data())].map((v) => Math.round(v * 1000) / 1000),
    [-1.169, -1.342, 0, 1, 1, 0],
  );
  const dropped = new TableEncoder(table, { target: 'town', inputs: ['rooms'], missing: 'drop' });
  const classes = dropped.encode(table);
  assert.deepEqual(
    [dropped.classes, [...(await classes.targets.data())]],
    [
      ['Köln', 'Ulm'],
      [1, 0, 1],
    ],
  );
  assert.deepEqual([...(await classes.inputs.data())], [2, 3, 4]);
  await refused(
    Promise.resolve().then(async () =>
      encoder.encode(await csv('town,new,area,rooms,price\nBonn,true,1,2,3\n')),
    ),
    "houses.csv:2: 'town' is 'Bonn', which the training table does not have.",
  );
});

test('a table that is wrong is refused with the file and the line', async () => {
  const encoded = async (text: string, target: string): Promise<unknown> => {
    const table = await csv(text);
    return new TableEncoder(table, { target }).encode(table);
  };
  await refused(
    encoded(CSV, 'prize'),
    "houses.csv:1: unknown column 'prize'. Did you mean 'price'? Columns: area, rooms, town, new, price.",
  );
  await refused(
    encoded(CSV, 'price'),
    "houses.csv:4: 'area' is missing. Fill it in, or say what to do: missing: 'drop', or 'mean' for inputs.",
  );
  await refused(
    csv('a,b\n1,2\n3\n'),
    'houses.csv:3: has 1 values, must have 2 as the first row has. Is a value with a comma without quotes?',
  );
  await refused(
    csv('a,b\n1,2\n\n3,x\n'),
    "houses.csv:4: 'b' is 'x', must be a number as in the rows before. Correct it, or read the column as categories: columns: { b: 'category' }.",
  );
  await refused(csv('a,a\n1,2\n'), "houses.csv:1: two columns are named 'a'. Rename one.");
  await refused(csv(''), 'houses.csv: is empty, expected a table.');
  await refused(csv('a,b\n'), 'houses.csv: has no rows below its header.');
  await assert.rejects(csv('a,b\n1,"2\n3,4\n'), /houses\.csv:\d+: Quote Not Closed/);
  await assert.rejects(csv(gzipSync(CSV).subarray(0, 40), {}, 'cut.csv.gz'), DataError);
  await refused(readCsv(join(folder, 'none.csv')), 'none.csv: no such file. Check the path.');
  await refused(readCsv(folder), `${folder}: is a folder, expected a file.`);
  await assert.rejects(
    csv(CSV, { columns: { areas: 'number' } }),
    /unknown column 'areas'\. Did you mean 'area'\?/,
  );
  writeFileSync(join(folder, 'x.parquet'), 'PAR1 no');
  await assert.rejects(
    readParquet(join(folder, 'x.parquet')),
    /x\.parquet: is damaged or not a Parquet file \(/,
  );
  await assert.rejects(
    readParquet(golden('lists.parquet')),
    /lists\.parquet, row 0: 'x' is \[1n, 2n\], must be a number or a text/,
  );
  assert.equal((await readParquet(golden('lists.parquet'), { columns: { x: 'skip' } })).columns.length, 1);
});
