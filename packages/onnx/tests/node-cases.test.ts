/** The node tests of the `onnx` package: every case of every operator that is claimed. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { setPrecision } from 'heddle';
import { NEWEST_OPSETS } from '../src/model/plan.js';
import { OPERATORS } from '../src/operators/table.js';
import { HEADER } from './node-cases.js';
import { outcomes, pageOf } from './outcomes.js';

// The expected values are of f32, where GPUs convolve in tf32 by default.
setPrecision({ matmul: 'f32', conv: 'f32' });

const found = await outcomes();

test('node cases pass, or are left out for a stated reason', (t) => {
  const reasons = new Map<string, number>();
  for (const { reason } of found)
    if (reason !== undefined) reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
  for (const [reason, count] of reasons) t.diagnostic(`${count} cases are left out: ${reason}`);
  const failures = found.filter(({ failure }) => failure !== undefined);
  assert.deepEqual(
    failures.map(({ name, failure }) => `${name}: ${failure}`),
    [],
  );
});

test('the page of operators is up to date', () => {
  const path = new URL('../../../../docs/reference/onnx.md', import.meta.url);
  const page = pageOf(found);
  if (process.env.UPDATE_SNAPSHOTS === '1') writeFileSync(path, page);
  assert.equal(readFileSync(path, 'utf8'), page, 'run with UPDATE_SNAPSHOTS=1 and read the diff');
});

test('every version of an operator since the first that is claimed is claimed', () => {
  assert.equal(NEWEST_OPSETS[''], HEADER.opset);
  for (const [name, { since }] of Object.entries(OPERATORS)) {
    // ONNX Runtime's own operators are not in the standard.
    if (name.startsWith('com.microsoft.') || name === 'SimplifiedLayerNormalization') continue;
    const standard = HEADER.versions[name];
    assert.ok(standard, `${name} is no operator of ONNX`);
    const isCurrent = (v: number): boolean => !HEADER.deprecated[name]?.includes(v);
    assert.deepEqual(
      since.filter(isCurrent),
      standard.filter((v) => v >= since[0]! && isCurrent(v)),
      name,
    );
  }
});
