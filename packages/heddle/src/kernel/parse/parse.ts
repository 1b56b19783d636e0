/**
 * From a function's source to the kernel IR. What an author may write is in ../language/; how it is typed, in
 * typing.ts; the other files here each read one concept of the source.
 */
import { isPlainObject, shown } from '../../core/arguments.js';
import { KernelError } from '../../core/errors.js';
import { block, bufferParam, type KernelIr, type Param, type Statement, scalarParam } from '../ir/ir.js';
import { isIrFunction } from '../ir/ir-function.js';
import { isBuffer, type Schema } from '../ir/types.js';
import { CONTEXT } from './builtins.js';
import { capture, SourcePlace } from './capture.js';
import { expression } from './expressions.js';
import type { Fact } from './facts.js';
import { bind } from './functions.js';
import { Parsing, type TranslationInput, type Translator } from './state.js';
import { effectOf, statement, statements } from './statements.js';
import { isDType } from './typing.js';
import { fromExpr, fromStatic, type RecordValue, Scope, type Value } from './values.js';

/** Anything that can be called; its parameters are never looked at as values. */
export type AnyFunction = (...args: never[]) => unknown;

const TRANSLATOR: Translator = { expression, statement };

/**
 * Parse `fn` as a kernel.
 * @throws KernelError with the place in the author's source
 */
export function parseKernel(
  name: string,
  schema: Schema,
  fn: AnyFunction,
  constants: Readonly<Record<string, unknown>>,
): KernelIr {
  const params = paramsOf(name, schema);
  const source = capture(fn, `kernel ${name}`);
  for (const key of Object.keys(constants)) {
    if (CONTEXT.has(key)) {
      throw new KernelError(
        `kernel ${name}: the constant \`${key}\` has the name of an intrinsic. Rename it.`,
        new SourcePlace(source.origin, 0),
      );
    }
  }
  const given = [parametersOf(params), contextOf(constants)] as const;
  const origin: TranslationInput = { kernel: source, given, translator: TRANSLATOR };
  // The facts first: a translation that misses one says so, and the last is the one that misses none.
  const facts = new Map<string, Fact['is']>();
  for (;;) {
    const p = new Parsing(origin, facts);
    try {
      const body = translate(p);
      return { name, params, body, arrays: [...p.arrays.values()] };
    } catch (error) {
      if (!p.missing) throw error;
      facts.set(p.missing.key, p.missing.is);
    }
  }
}

/** @throws KernelError for what is no schema, as may happen in JavaScript */
function paramsOf(kernel: string, schema: Schema): Param[] {
  if (!isPlainObject(schema))
    throw new KernelError(
      `kernel ${kernel}: the second argument must be the schema of its parameters, as { x: buffer(f32), n: i32 }.`,
    );
  return Object.entries(schema).map(([name, type]) => {
    if (!isDType(type) && !(type?.kind === 'buffer' && isDType(type.dtype)))
      throw new KernelError(
        `kernel ${kernel}: the parameter ${name} must be a dtype or buffer(dtype), got ${shown(type)}. ` +
          `Write ${name}: f32 for a number, ${name}: buffer(f32) for memory, with import { buffer, f32 } from 'heddle'.`,
      );
    return { name, schema: type };
  });
}

function translate(p: Parsing): Statement {
  const { node } = p.kernel;
  const [values, context, ...more] = node.params;
  if (more[0])
    p.fail(
      more[0],
      'a kernel takes two parameters: its arguments, and the context with intrinsics and constants.',
    );
  const [parameters, intrinsics] = p.given;
  if (values) bind(p, values, parameters!);
  if (context) bind(p, context, intrinsics!);
  if (node.body.type === 'BlockStatement') statements(p, node.body.body);
  else effectOf(p, node.body);
  const made = p.out.at(-1)?.op === 'return' ? p.out.slice(0, -1) : p.out;
  return block(made, p.at(node));
}

function parametersOf(params: readonly Param[]): RecordValue {
  const values = new Map<string, Value>(
    params.map((param) => [
      param.name,
      isBuffer(param.schema)
        ? { kind: 'memory', memory: bufferParam(param), name: param.name }
        : fromExpr(scalarParam(param)),
    ]),
  );
  const names = params.map((param) => param.name);
  return { kind: 'record', name: 'the parameters', names, get: (name) => values.get(name) };
}

function contextOf(constants: Readonly<Record<string, unknown>>): RecordValue {
  const known = new Map<string, Value>();
  return {
    kind: 'record',
    name: 'the context',
    names: [...CONTEXT.keys(), ...Object.keys(constants)],
    get: (name) => {
      const own = CONTEXT.get(name);
      if (own) return own();
      if (!Object.hasOwn(constants, name)) return undefined;
      const value = known.get(name) ?? constantValue(name, constants[name]);
      known.set(name, value);
      return value;
    },
  };
}

function constantValue(name: string, constant: unknown): Value {
  if (isIrFunction(constant)) return { kind: 'ir-function', name, build: constant.build };
  return typeof constant === 'function'
    ? authorFunction(name, constant as AnyFunction)
    : fromStatic(constant);
}

function authorFunction(name: string, fn: AnyFunction): Value {
  const source = capture(fn, `function ${name}`);
  return { kind: 'function', name, node: source.node, source, scope: new Scope() };
}
