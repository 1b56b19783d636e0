/** The names of the language: operations, `Math`, and what the context offers. */
import { DTYPES } from '../../core/dtype.js';
import type { IntrinsicRecord } from '../ir/intrinsic-record.js';
import { INTRINSICS } from '../ir/intrinsics.js';
import { type Axis, alu, type Special, special } from '../ir/ir.js';
import { OPS, type ScalarOp } from '../ir/ops.js';
import type { Parsing } from './state.js';
import { apply, choice, toExpr } from './typing.js';
import { fromExpr, fromStatic, type Syntax, type Value } from './values.js';

/** The ops whose syntax is a call, by the name that is called. */
const calls = (syntax: RegExp): [name: string, op: ScalarOp][] =>
  (Object.keys(OPS) as ScalarOp[]).flatMap((op) => {
    const name = syntax.exec(OPS[op].syntax)?.[1];
    return name === undefined ? [] : [[name, op]];
  });

/** Operations that are called by their own name. */
export const NAMED_OPS: Readonly<
  Record<string, { readonly op: ScalarOp; readonly arity: number; readonly usage: string }>
> = Object.fromEntries(
  calls(/^(\w+)\(/).map(([name, op]) => [name, { op, arity: OPS[op].arity, usage: OPS[op].syntax }]),
);

interface MathRule {
  readonly arity: number;
  readonly make: (p: Parsing, node: Syntax, nodes: readonly Syntax[], values: readonly Value[]) => Value;
}

const rule = (arity: number, make: MathRule['make']): MathRule => ({ arity, make });

/** `Math.*`: an op of that name, or how it is made of others. */
export const MATH: Readonly<Record<string, ScalarOp | MathRule>> = {
  ...Object.fromEntries(calls(/^Math\.(\w+)\(/)),
  /** Halves go up, as in JavaScript. */
  round: rule(1, (p, node, nodes, [x]) => {
    // Both steps are exact, which x + 0.5 is not.
    const whole = apply(p, node, 'floor', nodes, [x!]);
    const rest = apply(p, node, 'sub', [node, node], [x!, whole]);
    const condition = toExpr(p, node, apply(p, node, 'ge', [node, node], [rest, fromStatic(0.5)]));
    // Not whole + 1, which has lost the sign of −0.
    const next = apply(p, node, 'ceil', nodes, [x!]);
    return choice(p, node, condition, [node, node], [next, whole]);
  }),
  /** -1, 1, or x itself where it is 0 or NaN. */
  sign: rule(1, (p, node, nodes, [x]) => {
    const side = (op: 'lt' | 'gt', value: number, otherwise: Value): Value => {
      const condition = toExpr(p, node, apply(p, node, op, [...nodes, node], [x!, fromStatic(0)]));
      return choice(p, node, condition, [node, node], [fromStatic(value), otherwise]);
    };
    return side('gt', 1, side('lt', -1, x!));
  }),
  imul: rule(2, (p, node, nodes, values) => apply(p, node, 'mul', nodes, values)),
};

const vectorOf =
  (name: string, component: (axis: Axis) => Value): (() => Value) =>
  () => ({
    kind: 'record',
    name,
    names: ['x', 'y', 'z'],
    get: (axis) => (axis === 'x' || axis === 'y' || axis === 'z' ? component(axis) : undefined),
  });

const indexOf = (name: 'threadIdx' | 'blockIdx' | 'blockDim' | 'gridDim'): (() => Value) =>
  vectorOf(name, (axis) => fromExpr(special(`${name}.${axis}`)));

const one = (name: Special) => (): Value => fromExpr(special(name));
const named = (name: string) => (): Value => ({ kind: 'builtin', name });

const FUNCTIONS = [
  'shared local local2 local4 dynamicShared sharedTile mbarriers',
  'load2 load4 store2 store4 vec2 vec4 splat2 splat4 lane',
  'copyAsync copyAsync2 copyAsync4 copyAsync4Once',
  'bitcast rsqrt select assert print',
]
  .join(' ')
  .split(' ');

const WRITTEN_INTRINSICS = Object.keys(INTRINSICS).filter(
  (name) => !(INTRINSICS as Readonly<Record<string, IntrinsicRecord>>)[name]!.internal,
);

/** What the second parameter of a kernel offers besides its constants. */
export const CONTEXT: ReadonlyMap<string, () => Value> = new Map<string, () => Value>([
  ['threadIdx', indexOf('threadIdx')],
  ['blockIdx', indexOf('blockIdx')],
  ['blockDim', indexOf('blockDim')],
  ['gridDim', indexOf('gridDim')],
  [
    'globalId',
    vectorOf('globalId', (axis) => {
      const first = alu('mul', [special(`blockIdx.${axis}`), special(`blockDim.${axis}`)]);
      return fromExpr(alu('add', [first, special(`threadIdx.${axis}`)]));
    }),
  ],
  ['laneId', one('laneId')],
  ['warpId', one('warpId')],
  ['clusterRank', one('clusterRank')],
  ['clusterSize', one('clusterSize')],
  ...Object.values(DTYPES).map((t) => [t.name, (): Value => fromStatic(t)] as const),
  ...[...WRITTEN_INTRINSICS, ...Object.keys(NAMED_OPS), ...FUNCTIONS].map((n) => [n, named(n)] as const),
]);
