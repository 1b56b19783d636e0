/**
 * From a function's source to the kernel IR. What an author may write is in ../language/; how it is typed, in
 * typing.ts; the other files here each read one concept of the source.
 */
import { isPlainObject, shown } from '../../core/arguments.js';
import { KernelError } from '../../core/errors.js';
import { block, bufferParam, type KernelIr, type Param, scalarParam } from '../ir/ir.js';
import { isIrFunction } from '../ir/ir-function.js';
import { isBuffer, type Schema } from '../ir/types.js';
import { CONTEXT } from './builtins.js';
import { capture, Place } from './capture.js';
import { expression } from './expressions.js';
import { bind } from './functions.js';
import {
  fromExpr,
  fromStatic,
  type Lessons,
  Parsing,
  Restart,
  Scope,
  type Translator,
  type Value,
} from './state.js';
import { effectOf, statement, statements } from './statements.js';
import { isDType } from './typing.js';

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
        new Place(source.origin, 0),
      );
    }
  }
  const lessons: Lessons = { types: new Map(), unrolled: new Set() };
  for (;;) {
    const p = new Parsing(source, lessons, TRANSLATOR);
    try {
      return { name, params, body: parseBody(p, params, constants), arrays: [...p.arrays.values()] };
    } catch (error) {
      if (!(error instanceof Restart)) throw error;
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

function parseBody(p: Parsing, params: readonly Param[], constants: Readonly<Record<string, unknown>>) {
  const { node } = p.source;
  p.scope = new Scope();
  const [values, context, ...more] = node.params;
  if (more[0])
    p.fail(
      more[0],
      'a kernel takes two parameters: its arguments, and the context with intrinsics and constants.',
    );
  const given = [parametersOf(params), contextOf(constants)] as const;
  p.given = given;
  if (values) bind(p, values, given[0]);
  if (context) bind(p, context, given[1]);
  if (node.body.type === 'BlockStatement') statements(p, node.body.body);
  else effectOf(p, node.body);
  if (p.out.at(-1)?.op === 'return') p.out.pop();
  return block(p.out, p.at(node));
}

type RecordValue = Extract<Value, { kind: 'record' }>;

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
  return {
    kind: 'record',
    name: 'the context',
    names: [...CONTEXT.keys(), ...Object.keys(constants)],
    get: (name) => {
      const own = CONTEXT.get(name);
      if (own) return own();
      if (!Object.hasOwn(constants, name)) return undefined;
      const constant = constants[name];
      if (isIrFunction(constant)) return { kind: 'ir-function', name, build: constant.build };
      return typeof constant === 'function'
        ? authorFunction(name, constant as AnyFunction)
        : fromStatic(constant);
    },
  };
}

function authorFunction(name: string, fn: AnyFunction): Value {
  const source = capture(fn, `function ${name}`);
  return { kind: 'function', name, node: source.node, source, scope: new Scope() };
}
