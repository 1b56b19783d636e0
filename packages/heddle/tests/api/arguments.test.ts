/**
 * Everything public is called with arguments that are wrong: nothing but Heddle's own errors may come out, and what is of
 * the wrong kind, or an option of a name that does not exist, must be refused. What is exported is found out here, so
 * that nothing new can be forgotten: it needs a row in public-api.ts.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, beforeEach, test } from 'node:test';
import * as data from '../../src/data/index.js';
import * as H from '../../src/index.js';
import * as io from '../../src/io/index.js';
import * as kernel from '../../src/kernel/language/index.js';
import * as nn from '../../src/nn/index.js';
import * as optim from '../../src/optim/index.js';
import * as train from '../../src/train/index.js';
import { CALLS, METHODS, NOT_CALLED, RECEIVERS } from './public-api.js';
import type { Spec } from './spec.js';

type Callable = (...args: unknown[]) => unknown;

/** What JavaScript may pass for anything. */
const JUNK: readonly (() => unknown)[] = [
  ...[undefined, null, 0, 1, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 40, 10n, '', 'x', true],
  ...[Symbol('s'), new Date(0), new Map()],
].map((v) => () => v);
const MADE: readonly (() => unknown)[] = [
  () => [],
  () => [1],
  () => [-1],
  () => [1.5, 'x'],
  () => [null],
  () => [2 ** 40, 2 ** 40],
  () => ({}),
  () => () => undefined,
  () => () => 3,
  () => async () => 3,
  () => H.ones([2]),
  () => H.ones([2, 3, 4]),
  () => H.zeros([2, 2], { dtype: H.i32 }),
  () => H.ones([2, 2]).gt(0),
  () => new Float32Array(2),
  () => new Uint8Array(0),
  () => new nn.ReLU(),
  () => nn.ReLU,
];

/** Values for an argument, and whether they are of a right kind. */
function* variants(spec: Spec): Generator<readonly [value: unknown, legal: boolean]> {
  for (const make of [...JUNK, ...MADE]) {
    const value = make();
    const large = typeof value === 'number' && value > 1e6;
    if (!(spec.slow && large)) yield [value, spec.takes(value)];
  }
  if (!spec.options) return;
  yield [{ ...(spec.good() as object), unknownOption: 1 }, false];
  for (const [name, inner] of Object.entries(spec.options))
    for (const [value, legal] of variants(inner))
      yield [{ ...(spec.good() as object), [name]: value }, legal];
}

const text = (value: unknown): string => {
  if (value instanceof H.Tensor) return value.toString();
  if (typeof value === 'function') return value.name || 'function';
  if (Array.isArray(value)) return `[${value.map(text).join(', ')}]`;
  if (typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype)
    return `{${Object.entries(value)
      .map(([k, v]) => `${k}: ${text(v)}`)
      .join(', ')}}`;
  return typeof value === 'object' && value !== null ? value.constructor.name : String(value);
};

/** What is wrong with what a call returned: a tensor must have values that can be read. */
async function illegal(result: unknown): Promise<string | undefined> {
  const value = await result;
  if (typeof value === 'object' && value !== null && Symbol.iterator in value && 'next' in value)
    for (const _ of value as Iterable<unknown>);
  if (!(value instanceof H.Tensor)) return undefined;
  if (!value.shape.every((d) => Number.isSafeInteger(d) && d >= 0)) return `of shape ${value.shape}`;
  if (value.size <= 64) await value.data();
  return undefined;
}

/** Call it with each argument replaced by each wrong one. */
async function check(name: string, specs: readonly Spec[], call: Callable, faults: string[]): Promise<void> {
  const good = (): unknown[] => specs.map((s) => s.good());
  for (const [i, spec] of specs.entries())
    for (const [value, legal] of variants(spec)) {
      const args = good();
      args[i] = value;
      const what = `${name}(${args.map(text).join(', ')})`;
      try {
        const wrong = await illegal(call(...args));
        if (wrong) faults.push(`${what} returned a tensor ${wrong}`);
        else if (!legal) faults.push(`${what} was accepted`);
      } catch (error) {
        if (!(error instanceof H.HeddleError)) faults.push(`${what} threw ${String(error)}`);
        else if (error instanceof H.InternalError) faults.push(`${what}: ${error.message}`);
      }
    }
}

const isClass = (f: unknown): boolean => /^class\b/.test(Function.prototype.toString.call(f));

/** All functions of an entry point, by name, those of its namespaces with theirs before. */
function* functionsOf(module: object, prefix = ''): Generator<[string, Callable]> {
  for (const [name, value] of Object.entries(module)) {
    if (typeof value === 'function') yield [prefix + name, value as Callable];
    else if (Object.prototype.toString.call(value) === '[object Module]')
      yield* functionsOf(value, `${prefix}${name}.`);
  }
}

const seen = new Map<Callable, string>();
for (const [name, f] of [
  ...functionsOf(H),
  ...Object.entries({ nn, optim, data, io, train, kernel }).flatMap(([name, module]) => [
    ...functionsOf(module, `${name}.`),
  ]),
])
  if (!seen.has(f)) seen.set(f, name);

// Some of what is wrong elsewhere is the name of a file to write.
const folder = mkdtempSync(join(tmpdir(), 'heddle-arguments-'));
process.chdir(folder);
after(() => {
  process.chdir(tmpdir());
  rmSync(folder, { recursive: true });
});

/** There is a row of public-api.ts for each name, and no other. */
function requireRows(names: readonly string[], rows: readonly string[], prefix = ''): void {
  const missing = names.filter((name) => !rows.includes(name));
  const gone = rows.filter((name) => !names.includes(name));
  const listed = (of: readonly string[]): string => of.map((name) => prefix + name).join(', ') || 'none';
  assert.ok(
    missing.length + gone.length === 0,
    `rows missing in public-api.ts: ${listed(missing)}; rows of what is not there: ${listed(gone)}`,
  );
}

beforeEach(() => {
  H.useDevice('cpu');
});

test('everything exported is called with wrong arguments, or there is a reason', () => {
  requireRows([...seen.values()], Object.keys({ ...CALLS, ...NOT_CALLED }));
  const classes = [...seen].flatMap(([f, name]) => (isClass(f) && CALLS[name] ? [f.name] : []));
  assert.deepEqual(
    classes.filter((name) => !RECEIVERS[name]),
    [],
  );
});

test('functions and constructors refuse what they do not take', async () => {
  const faults: string[] = [];
  for (const [f, name] of seen) {
    const specs = CALLS[name];
    if (!specs) continue;
    const call: Callable = isClass(f) ? (...args) => Reflect.construct(f, args) : f;
    await check(name, specs, call, faults);
    H.useDevice('cpu');
    H.setPrecision({ matmul: 'f32', conv: 'tf32' });
  }
  assert.ok(faults.length === 0, `${faults.length} faults:\n${faults.join('\n')}`);
});

test('methods refuse what they do not take', async () => {
  const faults: string[] = [];
  for (const [name, make] of Object.entries(RECEIVERS)) {
    let owner: object = Object.getPrototypeOf(make());
    while (owner.constructor.name !== name) owner = Object.getPrototypeOf(owner);
    const methods = METHODS[name]!;
    const own = Object.entries(Object.getOwnPropertyDescriptors(owner)).flatMap(([key, { value, set }]) =>
      key === 'constructor' ? [] : set ? [`set ${key}`] : typeof value === 'function' ? [key] : [],
    );
    const hidden = new Set(HIDDEN[name] ?? []);
    requireRows(
      own.filter((key) => !hidden.has(key)),
      Object.keys(methods),
      `${name}.`,
    );
    for (const [method, specs] of Object.entries(methods)) {
      const call: Callable = (...args) => {
        const receiver = make();
        if (method.startsWith('set ')) Reflect.set(receiver, method.slice(4), args[0], receiver);
        else return (Reflect.get(receiver, method) as Callable).apply(receiver, args);
      };
      await check(`${name}.${method}`, specs, call, faults);
    }
  }
  assert.ok(faults.length === 0, `${faults.length} faults:\n${faults.join('\n')}`);
});

/** Methods that are no part of the public interface. */
const HIDDEN: Readonly<Record<string, readonly string[]>> = {
  TensorHandle: ['set ownNode'],
  Generator: ['bits', 'take'],
  ImmediateStream: ['mustLive'],
  Module: ['state'],
  ModuleList: ['state'],
  ModuleDict: ['state'],
  ParameterList: ['state'],
  ParameterDict: ['state'],
  Sequential: ['state'],
  KeyValueCache: ['append'],
  Optimizer: ['initialShared', 'nextShared', 'check', 'shard'],
  SGD: ['check', 'initialState', 'initialShared', 'nextShared', 'update'],
  Adam: ['initialState', 'initialShared', 'nextShared', 'decay', 'update'],
  AdamW: ['decay'],
  Adagrad: ['initialState', 'initialShared', 'nextShared', 'update'],
  Lion: ['initialState', 'update'],
  Muon: ['initialState', 'update'],
  RMSprop: ['initialState', 'update'],
};
