/** What was written is what is read: tables of any values, texts of any characters. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { readCsv, readTokenizer, trainTokenizer, writeTokenizer } from 'heddle-data';
import { temporaryFolder } from './image-files.js';
import { property } from './property.js';

const folder = temporaryFolder();

/** A value between quotes. */
const quoted = (value: string): string => `"${value.replaceAll('"', '""')}"`;
/** Not one that stands for a missing value; lines may end in it, and quotes and commas be part of it. */
const word = fc
  .oneof(fc.string({ unit: 'binary' }), fc.string({ unit: fc.constantFrom('"', ',', '\n', '\r', ' ', 'a') }))
  .filter((text) => !/^\s*(?:|NA|N\/A|NaN|null|None|\?)\s*$/i.test(text));
/** −0 is written as 0. */
const finite = fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0);
const column = (rows: number) =>
  fc.oneof(
    fc.record({
      type: fc.constant('number' as const),
      values: fc.array(finite, {
        minLength: rows,
        maxLength: rows,
      }),
    }),
    fc.record({
      type: fc.constant('category' as const),
      values: fc.array(word, { minLength: rows, maxLength: rows }),
    }),
  );

property(
  'a CSV file has the values that were written to it',
  [
    fc.integer({ min: 1, max: 6 }).chain((rows) => fc.array(column(rows), { minLength: 1, maxLength: 4 })),
    fc.constantFrom(',', ';', '\t'),
    fc.constantFrom('\n', '\r\n'),
  ],
  async (columns, delimiter, end) => {
    const path = join(folder, 'table.csv');
    const lines = columns[0]!.values.map((_, row) =>
      columns.map(({ values }) =>
        typeof values[row] === 'number' ? String(values[row]) : quoted(values[row]!),
      ),
    );
    const header = columns.map((_, i) => `c${i}`);
    writeFileSync(path, [header, ...lines].map((cells) => cells.join(delimiter) + end).join(''));
    const types = Object.fromEntries(columns.map(({ type }, i) => [`c${i}`, type]));
    const table = await readCsv(path, { delimiter, columns: types });
    assert.equal(table.length, lines.length);
    for (const [i, { values }] of columns.entries()) {
      const read = table.columns[i]!;
      assert.deepEqual(
        read.type === 'number' ? [...read.values] : Array.from(read.codes, (code) => read.categories[code]),
        values,
      );
    }
  },
);

const text = fc.oneof(fc.string({ unit: 'binary', maxLength: 40 }), fc.lorem({ maxCount: 8 }));

property(
  'the tokens of any text give the text again, also after the tokenizer was written and read',
  [fc.array(text, { maxLength: 4 }), fc.integer({ min: 256, max: 300 }), text],
  async (texts, vocabularySize, given) => {
    const path = join(folder, 'tokenizer.json');
    const trained = trainTokenizer([...texts], { vocabularySize, minFrequency: 1 });
    const ids = trained.encode(given);
    assert.equal(trained.decode(ids), given);
    assert.ok(ids.every((id) => id >= 0 && id < trained.size) && trained.size <= vocabularySize);
    assert.ok(ids.length <= new TextEncoder().encode(given).length);
    await writeTokenizer(path, trained);
    assert.deepEqual((await readTokenizer(path)).encode(given), ids);
  },
);
