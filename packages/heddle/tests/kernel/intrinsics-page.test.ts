/** docs/kernels/intrinsics.md has every name of the kernel language, in tables made of the docstrings and records. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { OPS, type OperandRule, type ScalarOp } from '../../src/kernel/ir/ops.js';
import { CONTEXT, MATH } from '../../src/kernel/parse/builtins.js';
import { root } from '../package/workspace.js';

const page = join(root, 'docs/kernels/intrinsics.md');

/** The members of `Intrinsics`, as declared: name, signature without `readonly`, docstring in one line. */
function declared(): Map<string, { readonly signature: string; readonly doc: string }> {
  const source = readFileSync(join(root, 'packages/heddle/src/kernel/language/language.ts'), 'utf8');
  const [, body] = /export interface Intrinsics \{\n([\s\S]*?)\n\}/.exec(source)!;
  const member = /\/\*\*([\s\S]*?)\*\/\s*(?:readonly )?((\w+)[^;]*);/g;
  return new Map(
    [...body!.matchAll(member)].map(([, doc, signature, name]) => [
      name!,
      { signature: signature!.replace(/\s+/g, ' '), doc: doc!.replace(/\s*\n\s*\* ?|\s+/g, ' ').trim() },
    ]),
  );
}

const code = (text: string): string => `\`${text.replaceAll('|', '\\|')}\``;
const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |\n`).join('');

const OPERANDS: Readonly<Record<OperandRule, string>> = {
  number: 'numbers',
  float: 'floats',
  f32: 'f32',
  i32: 'i32',
  integer: 'integers',
  bits: 'integers and booleans',
  bool: 'booleans',
  any: 'numbers and booleans',
};
const spelled = (op: ScalarOp): string[] => [code(OPS[op].syntax), OPERANDS[OPS[op].operands]];

function mathTable(): string {
  const rows = Object.entries(MATH).map(([name, rule]) => {
    if (typeof rule === 'string') return spelled(rule);
    const operands = name === 'imul' ? 'integers' : name === 'round' ? 'floats' : 'numbers';
    return [code(`Math.${name}(${['a', 'b', 'c'].slice(0, rule.arity).join(', ')})`), operands];
  });
  return table(
    ['function', 'of'],
    rows.sort(([a], [b]) => (a! < b! ? -1 : 1)),
  );
}

const operatorTable = (): string =>
  table(
    ['operator', 'of'],
    (Object.keys(OPS) as ScalarOp[]).filter((op) => !OPS[op].syntax.includes('(')).map(spelled),
  );

test('the page of intrinsics has all of them, as their docstrings say', () => {
  const known = declared();
  const left = new Set(CONTEXT.keys());
  const intrinsicTable = (names: readonly string[]): string =>
    table(
      ['intrinsic', 'what it does'],
      names.map((name) => {
        const { signature, doc } = known.get(name) ?? assert.fail(`${name} is not declared in Intrinsics`);
        assert.ok(left.delete(name), `${name} stands there twice, or is not an intrinsic`);
        return [code(signature), doc.replaceAll('|', '\\|')];
      }),
    );
  const text = readFileSync(page, 'utf8');
  const wanted = text.replace(
    /(<!-- (intrinsics|math|operators)(: ([\w ]+))? -->\n)[\s\S]*?(<!-- \/\2 -->)/g,
    (_, open: string, kind: string, _list, names: string | undefined, close: string) => {
      const made =
        kind === 'math'
          ? mathTable()
          : kind === 'operators'
            ? operatorTable()
            : intrinsicTable(names!.trim().split(' '));
      return `${open}\n${made}\n${close}`;
    },
  );
  assert.deepEqual([...left], [], 'intrinsics that the page lacks');
  if (process.env.UPDATE_SNAPSHOTS) writeFileSync(page, wanted);
  else assert.equal(text, wanted, 'run with UPDATE_SNAPSHOTS=1 and read the diff');
});
