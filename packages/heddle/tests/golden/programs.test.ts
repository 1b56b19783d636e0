/** The tape that random programs are checked with, against PyTorch: its values, its gradients, and all of its ops. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { type Expected, evaluate, type Program, parseProgram } from '../programs/program.js';
import { TABLE } from '../programs/table.js';
import { FORMATS, isFloat } from '../programs/tape.js';

interface Golden {
  readonly program: Program;
  readonly outputs: readonly { readonly data: string }[];
  readonly gradients: readonly { readonly data: string }[];
}

const text = readFileSync(new URL('../../../tests/golden/programs.json', import.meta.url), 'utf8');
const { programs } = parseProgram(text) as unknown as { readonly programs: readonly Golden[] };

/** PyTorch computed in f64 and rounded to f32. */
function compare(expected: Expected, { data }: { readonly data: string }, what: string): void {
  const bytes = Uint8Array.from(Buffer.from(data, 'base64'));
  const { unit } = FORMATS[expected.dtype];
  const found = isFloat(expected.dtype) ? new Float32Array(bytes.buffer) : new Int32Array(bytes.buffer);
  assert.equal(found.length, expected.value.length, what);
  for (let i = 0; i < found.length; i++) {
    const [v, w, e] = [expected.value[i]!, found[i]!, expected.error[i]!];
    if (Object.is(v, w) || v === w || e === Number.POSITIVE_INFINITY) continue;
    // What a device in f64 may be off by, and the rounding to f32
    const bound = unit === 0 ? 0 : (16 * e * 2 ** -53) / unit + 2 ** -23 * Math.abs(w) + 2 ** -126;
    assert.ok(Math.abs(v - w) <= bound, `${what}, element ${i}: ${v}, PyTorch has ${w} ± ${bound}`);
  }
}

test(`the tape agrees with PyTorch in ${programs.length} programs`, () => {
  for (const [n, { program, outputs, gradients }] of programs.entries()) {
    const [round] = evaluate(program, 1);
    const what = `program ${n} (${program.steps.map((s) => s.op).join(' ')})`;
    outputs.forEach((o, i) => {
      compare(round!.outputs[i]!, o, `${what}: value ${program.outputs[i]}`);
    });
    gradients.forEach((g, i) => {
      compare(round!.gradients[i]!, g, `${what}: gradient ${i}`);
    });
  }
});

test('every op of random programs is among them', () => {
  const used = new Set(programs.flatMap(({ program }) => program.steps.map((s) => s.op)));
  assert.deepEqual(
    Object.keys(TABLE).filter((op) => !used.has(op)),
    [],
  );
});
