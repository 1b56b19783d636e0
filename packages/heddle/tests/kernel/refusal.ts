/** What is wrong with a kernel, and where: in the very file of the test. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { KernelError } from '../../src/core/errors.js';
import {
  bool,
  buffer,
  type Constants,
  defineKernel,
  f32,
  f64,
  type Intrinsics,
  i32,
  i64,
  u32,
  type ValuesOf,
} from '../../src/kernel/language/index.js';

export const schema = {
  x: buffer(f32),
  y: buffer(i32),
  flags: buffer(bool),
  a: f32,
  d: f64,
  n: i32,
  u: u32,
  l: i64,
  yes: bool,
} as const;

export type Context = Intrinsics & Readonly<Record<string, never>>;
export type Kernel = (params: ValuesOf<typeof schema>, context: Context) => void;

/**
 * A test that this kernel is refused.
 * @param message of the error
 * @param mark what the error points at: the first place of it in the line
 */
export function fails(
  name: string,
  fn: Kernel,
  message: RegExp,
  mark: string,
  constants: Constants = {},
): void {
  test(name, () => {
    assert.throws(
      () => defineKernel('k', schema, fn as never, constants),
      (error) => {
        assert.ok(error instanceof KernelError, String(error));
        assert.match(error.message, message);
        const { at } = error;
        assert.ok(at);
        assert.match(at.file, /tests[\\/]kernel[\\/]errors(-types)?\.test\.ts$/);
        const line = readFileSync(at.file, 'utf8').split('\n')[at.line - 1];
        assert.equal(at.text, line);
        assert.equal(line?.slice(at.column - 1).startsWith(mark), true, `${at.line}:${at.column} ${line}`);
        return true;
      },
    );
  });
}
