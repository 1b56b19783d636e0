/** Kernels that use everything the renderer can write: every op, conversion and intrinsic on every dtype. */
import { bool, DTYPES, type DType, f32, i32, isByte, isInteger, u32 } from '../../src/core/dtype.js';
import { ASYNCHRONOUS } from '../../src/kernel/ir/asynchronous.js';
import type { IntrinsicRecord } from '../../src/kernel/ir/intrinsic-record.js';
import { INTRINSICS, type Intrinsic, PARAM_TYPE } from '../../src/kernel/ir/intrinsics.js';
import {
  act,
  alu,
  bitcast,
  block,
  bufferParam,
  cast,
  constant,
  declare,
  type Expr,
  effect,
  intrinsic,
  type KernelIr,
  lane,
  load,
  type MemoryNode,
  type Param,
  read,
  type Statement,
  select,
  special,
  splat,
  store,
  type Variable,
} from '../../src/kernel/ir/ir.js';
import { OPS, type OpRecord, type ScalarOp } from '../../src/kernel/ir/ops.js';
import { buffer, type Lanes, value } from '../../src/kernel/ir/types.js';

const dtypes: readonly DType[] = Object.values(DTYPES);

const accepts = (record: OpRecord, t: DType): boolean => {
  switch (record.operands) {
    case 'number':
      return t !== bool;
    case 'float':
      return t.kind === 'float';
    case 'f32':
    case 'i32':
      return t.name === record.operands;
    case 'integer':
      return isInteger(t);
    case 'bits':
      return isInteger(t) || t === bool;
    case 'bool':
      return t === bool;
    case 'any':
      return true;
  }
};

const param = (name: string, dtype: DType): Param => ({ name, schema: buffer(dtype) });

const at = (i: number, lanes: Lanes = 1): Expr =>
  alu('add', [alu('mul', [special('threadIdx.x'), constant(i32, lanes)]), constant(i32, i * lanes * 1024)]);

/** Every op that takes `t`, on scalars or vectors: x, y and z in, values out and truths (for comparisons) out. */
export function everyOp(t: DType, lanes: Lanes): KernelIr {
  const [x, y, z, out, truth] = [
    param('x', t),
    param('y', t),
    param('z', t),
    param('out', t),
    param('truth', bool),
  ] as const;
  const operands: Variable[] = ['a', 'b', 'c'].map((name) => ({
    name,
    type: value(t, lanes),
    constant: true,
  }));
  const statements: Statement[] = operands.map((variable, i) =>
    declare(variable, load(bufferParam([x, y, z][i]!), [at(0, lanes)], lanes)),
  );
  const names = (Object.keys(OPS) as ScalarOp[]).filter((op) => accepts(OPS[op], t));
  names.forEach((op, i) => {
    const { arity, result } = OPS[op];
    const node = alu(
      op,
      operands.slice(0, arity).map((v) => read(v)),
    );
    statements.push(store(bufferParam(result === 'bool' ? truth : out), node, [at(i, lanes)]));
  });
  const [a, b, c] = operands.map((v) => read(v)) as [Expr, Expr, Expr];
  statements.push(
    store(bufferParam(out), select(alu('eq', [a, b]), b, c), [at(names.length, lanes)]),
    store(bufferParam(out), splat(constantOf(t, 1), lanes), [at(names.length + 1, lanes)]),
    store(bufferParam(out), lanes === 1 ? a : lane(a, 1), [at(names.length + 2, lanes)]),
  );
  return {
    name: `every_op_on_${t.name}_by_${lanes}`,
    params: [x, y, z, out, truth],
    arrays: [],
    body: block(statements),
  };
}

const constantOf = (t: DType, v: number): Expr =>
  constant(t, t === bool ? v !== 0 : t.name === 'i64' ? BigInt(v) : v);

/** Conversions from `t` to every dtype, and reinterpretations to those of its size. */
export function everyConversion(t: DType, lanes: Lanes): KernelIr {
  const x = param('x', t);
  const outs = dtypes.map((to) => param(`to_${to.name}`, to));
  const a: Variable = { name: 'a', type: value(t, lanes), constant: true };
  const statements: Statement[] = [declare(a, load(bufferParam(x), [at(0, lanes)], lanes))];
  dtypes.forEach((to, i) => {
    statements.push(store(bufferParam(outs[i]!), cast(to, read(a)), [at(0, lanes)]));
    if (to.bytes === t.bytes)
      statements.push(store(bufferParam(outs[i]!), bitcast(to, read(a)), [at(1, lanes)]));
    if (t === f32 && isByte(to))
      statements.push(store(bufferParam(outs[i]!), cast(to, alu('rint', [read(a)])), [at(2, lanes)]));
  });
  return {
    name: `every_conversion_of_${t.name}_by_${lanes}`,
    params: [x, ...outs],
    arrays: [],
    body: block(statements),
  };
}

const isBitwise = (name: Intrinsic): boolean => ['atomicAnd', 'atomicOr', 'atomicXor'].includes(name);

/** Every intrinsic whose `T` can be `t`. */
export function everyIntrinsic(t: DType): KernelIr {
  const [x, out, votes] = [param('x', t), param('out', t), param('votes', u32)] as const;
  const tile = { name: 'tile', dtype: t, space: 'shared', dims: [32], lanes: 1 } as const;
  const a: Variable = { name: 'a', type: value(t), constant: true };
  const statements: Statement[] = [declare(a, load(bufferParam(x), [special('threadIdx.x')]))];
  const memories: MemoryNode[] = [
    bufferParam(out),
    { op: 'array', type: { kind: 'memory', dtype: t, space: 'shared', dims: [32] }, src: [], arg: tile },
  ];
  for (const name of Object.keys(INTRINSICS) as Intrinsic[]) {
    const record: IntrinsicRecord = INTRINSICS[name];
    if (record.internal || record.cluster || name in ASYNCHRONOUS) continue;
    if (record.result === 'none') {
      statements.push(
        act(
          name,
          record.params.map(() => constant(i32, 3)),
        ),
      );
      continue;
    }
    if (record.rows) {
      if (t.bytes === 2) statements.push(effect(intrinsic(name, [memories[1]!, constant(i32, 0)], t)));
      continue;
    }
    if (isBitwise(name) && !isInteger(t)) continue;
    const args = record.params.map((p) =>
      p === 'T'
        ? read(a)
        : p === 'bool'
          ? alu('eq', [read(a), read(a)])
          : splat(constant(PARAM_TYPE[p].dtype, 3), PARAM_TYPE[p].lanes),
    );
    if (record.atomic) {
      for (const memory of memories)
        statements.push(effect(intrinsic(name, [memory, special('laneId'), ...args], t)));
      continue;
    }
    const node = intrinsic(name, args, t);
    const result: Variable = { name: `${name}_result`, type: node.type, constant: true };
    statements.push(
      declare(result, node),
      node.type.dtype === t
        ? store(bufferParam(out), read(result), [special('warpId')])
        : store(bufferParam(votes), cast(u32, read(result)), [special('laneId')]),
    );
  }
  return {
    name: `every_intrinsic_on_${t.name}`,
    params: [x, out, votes],
    arrays: [tile],
    body: block(statements),
  };
}

/** All of them, for the compile check. */
export function coverageKernels(): KernelIr[] {
  const lanes: readonly Lanes[] = [1, 2, 4];
  return [
    ...dtypes.flatMap((t) => lanes.flatMap((n) => [everyOp(t, n), everyConversion(t, n)])),
    ...dtypes.filter((t) => t !== bool).map(everyIntrinsic),
  ];
}
