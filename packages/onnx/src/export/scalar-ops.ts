/** The scalar ops of maps as ONNX operators. */
import type { DType } from 'heddle/internal/core/dtype.js';
import { ArgumentError } from 'heddle/internal/core/errors.js';
import type { ScalarOp } from 'heddle/internal/kernel/ir/ops.js';
import type { Emission } from './emission.js';
import { int } from './graph-writer.js';

/** Writes an op of these operands, which are of one dtype. @returns the value */
type WriteScalar = (io: Emission, operands: readonly string[], dtype: DType) => string;

/** The ONNX operator of the same meaning. */
const as =
  (opType: string): WriteScalar =>
  (io, operands) =>
    io.add(opType, operands);

/** One of bools, another of integers. */
const bits =
  (ofBools: string, ofIntegers: string): WriteScalar =>
  (io, operands, dtype) =>
    io.add(dtype.kind === 'bool' ? ofBools : ofIntegers, operands);

const refused =
  (name: string): WriteScalar =>
  (_, __, dtype) => {
    throw new ArgumentError(
      `[exportOnnx] ONNX has no operator for ${name} of ${dtype.name}. Compute it outside of the exported module.`,
    );
  };

/** Near 0 as 2t/(1 − t) with t = tanh(x/2): e^x − 1 would cancel there. */
const expm1: WriteScalar = (io, [x], dtype) => {
  const number = (value: number): string => io.scalar(value, dtype);
  const t = io.add('Tanh', [io.add('Mul', [x, number(0.5)])]);
  const near = io.add('Div', [io.add('Add', [t, t]), io.add('Sub', [number(1), t])]);
  const far = io.add('Sub', [io.add('Exp', [x]), number(1)]);
  return io.add('Where', [io.add('Less', [io.add('Abs', [x]), number(0.5)]), near, far]);
};

/** Near 0 as 2 artanh(x/(2 + x)): 1 + x would round there. */
const log1p: WriteScalar = (io, [x], dtype) => {
  const number = (value: number): string => io.scalar(value, dtype);
  const half = io.add('Atanh', [io.add('Div', [x, io.add('Add', [x, number(2)])])]);
  const far = io.add('Log', [io.add('Add', [x, number(1)])]);
  return io.add('Where', [
    io.add('Less', [io.add('Abs', [x]), number(0.5)]),
    io.add('Add', [half, half]),
    far,
  ]);
};

/** arctan(a/b), turned by ±π where b < 0. */
const atan2: WriteScalar = (io, [a, b], dtype) => {
  const number = (value: number): string => io.scalar(value, dtype);
  const zero = number(0);
  const turned = io.add('Where', [io.add('Less', [a, zero]), number(-Math.PI), number(Math.PI)]);
  const turn = io.add('Where', [io.add('Less', [b, zero]), turned, zero]);
  const angle = io.add('Add', [io.add('Atan', [io.add('Div', [a, b])]), turn]);
  const isOrigin = io.add('And', [io.add('Equal', [a, zero]), io.add('Equal', [b, zero])]);
  return io.add('Where', [isOrigin, zero, angle]);
};

/** (1 + erf(x/√2)) / 2 */
const normcdf: WriteScalar = (io, [x], dtype) => {
  const erf = io.add('Erf', [io.add('Mul', [x, io.scalar(Math.SQRT1_2, dtype)])]);
  return io.add('Mul', [io.add('Add', [erf, io.scalar(1, dtype)]), io.scalar(0.5, dtype)]);
};

/** e^(−x²/2)/√(2π) */
const normpdf16: WriteScalar = (io, [x], dtype) => {
  const power = io.add('Mul', [io.add('Mul', [x, x]), io.scalar(-0.5, dtype)]);
  return io.add('Mul', [io.add('Exp', [power]), io.scalar(1 / Math.sqrt(2 * Math.PI), dtype)]);
};

export const SCALAR_OPS = {
  add: as('Add'),
  sub: as('Sub'),
  mul: as('Mul'),
  div: as('Div'),
  idiv: as('Div'),
  mod: (io, operands) => io.add('Mod', operands, { fmod: int(1) }),
  neg: as('Neg'),
  abs: as('Abs'),
  min: as('Min'),
  max: as('Max'),
  fma: (io, [a, b, c]) => io.add('Add', [io.add('Mul', [a, b]), c]),
  sqrt: as('Sqrt'),
  exp: as('Exp'),
  expm1,
  log: as('Log'),
  log1p,
  exp16: as('Exp'),
  exp2: (io, [x], dtype) => io.add('Pow', [io.scalar(2, dtype), x]),
  exp2Normal: refused('exp2Normal'),
  log2: (io, [x], dtype) => io.add('Mul', [io.add('Log', [x]), io.scalar(Math.LOG2E, dtype)]),
  sin: as('Sin'),
  cos: as('Cos'),
  tanh: as('Tanh'),
  atan2,
  erf: as('Erf'),
  normpdf16,
  normcdf,
  normcdf16: normcdf,
  pow: as('Pow'),
  floor: as('Floor'),
  ceil: as('Ceil'),
  trunc: (io, [x]) => io.add('Mul', [io.add('Sign', [x]), io.add('Floor', [io.add('Abs', [x])])]),
  rint: as('Round'),
  tf32: refused('tf32'),
  lt: as('Less'),
  le: as('LessOrEqual'),
  gt: as('Greater'),
  ge: as('GreaterOrEqual'),
  eq: as('Equal'),
  ne: (io, operands) => io.add('Not', [io.add('Equal', operands)]),
  and: bits('And', 'BitwiseAnd'),
  or: bits('Or', 'BitwiseOr'),
  xor: bits('Xor', 'BitwiseXor'),
  not: bits('Not', 'BitwiseNot'),
  shl: refused('a shift'),
  shr: refused('a shift'),
  mulhi: refused('mulhi'),
  dp4a: refused('dp4a'),
  dp4aPositive: refused('dp4a'),
} as const satisfies Record<ScalarOp, WriteScalar>;
