/**
 * From a function's source to the kernel IR. What an author may write is in language.ts; how it is typed, in
 * typing.ts; parse-*.ts each read one concept of the source.
 */
import { KernelError } from '../core/errors.js';
import { capture, Place } from './capture.js';
import { block, bufferParam, type KernelIr, type Param, scalarParam } from './ir.js';
import { isIrFunction } from './ir-function.js';
import { CONTEXT } from './parse-builtins.js';
import { evaluateFor } from './parse-expressions.js';
import { bind } from './parse-functions.js';
import { fromExpr, fromStatic, type Lessons, Parsing, Restart, Scope, type Value } from './parse-state.js';
import { statements } from './parse-statements.js';
import { isBuffer, type Schema } from './types.js';

/** Anything that can be called; its parameters are never looked at as values. */
export type AnyFunction = (...args: never[]) => unknown;

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
  const source = capture(fn, `kernel ${name}`);
  const params = Object.entries(schema).map(([key, type]): Param => ({ name: key, schema: type }));
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
    const p = new Parsing(source, lessons);
    try {
      return { name, params, body: parseBody(p, params, constants), arrays: [...p.arrays.values()] };
    } catch (error) {
      if (!(error instanceof Restart)) throw error;
    }
  }
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
  if (values) bind(p, values, parametersOf(params));
  if (context) bind(p, context, contextOf(constants));
  if (node.body.type === 'BlockStatement') statements(p, node.body.body);
  else evaluateFor(p, node.body);
  if (p.out.at(-1)?.op === 'return') p.out.pop();
  return block(p.out, p.at(node));
}

function parametersOf(params: readonly Param[]): Value {
  const values = new Map<string, Value>(
    params.map((param) => [
      param.name,
      isBuffer(param.schema)
        ? { kind: 'memory', memory: bufferParam(param), name: param.name }
        : fromExpr(scalarParam(param)),
    ]),
  );
  return { kind: 'record', name: 'the parameters', get: (name) => values.get(name) };
}

function contextOf(constants: Readonly<Record<string, unknown>>): Value {
  return {
    kind: 'record',
    name: 'the context',
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
