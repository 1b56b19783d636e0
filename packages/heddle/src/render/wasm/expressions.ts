/**
 * Expressions in WebAssembly. A value is one stack entry: a scalar, or a v128 for 2 or 4 lanes of up to 32 bits
 * (bools are masks of all ones). Vectors of 64-bit elements are "wide": a local per lane.
 */
import { type DType, isByte } from '../../core/dtype.js';
import { InternalError } from '../../core/errors.js';
import { type Expr, isPair, type Param, type Special, type Variable } from '../../kernel/ir/ir.js';
import { OPS, type ScalarOp } from '../../kernel/ir/ops.js';
import type { ValueType } from '../../kernel/ir/types.js';
import { convert, convert4 } from './convert.js';
import type { WasmEmitter } from './emitter.js';
import type { FunctionBuilder, Local } from './encode.js';
import { fromHalf, roundToHalf, toHalf } from './half.js';
import { atomic, load, loadSplat } from './memory.js';
import { type HelperName, type OpContext, type OpInstructions, ruleOf } from './ops.js';
import { cutToByte, fail, holderOf, isUnsigned, isWide, laneType, vectorBytes } from './values.js';
import { wide } from './wide.js';

/** What the functions of a module share. */
export interface ModuleContext {
  readonly fma: boolean;
  helper(name: HelperName): FunctionBuilder;
}

export class WasmExpressions implements WasmEmitter {
  readonly f: FunctionBuilder;
  readonly module: ModuleContext;
  readonly variables = new Map<Variable, Local[]>();
  readonly params = new Map<Param, Local>();
  readonly specials = new Map<Special, Local>();

  constructor(f: FunctionBuilder, module: ModuleContext) {
    this.f = f;
    this.module = module;
  }

  /** Locals for a value: one, or one per lane if it is wide. */
  locals(name: string, t: ValueType): Local[] {
    const count = isWide(t) ? t.lanes : 1;
    return Array.from({ length: count }, () => this.f.local(name, holderOf(t)));
  }

  variable(v: Variable): Local[] {
    let locals = this.variables.get(v);
    if (!locals) {
      locals = this.locals(v.name, v.type);
      this.variables.set(v, locals);
    }
    return locals;
  }

  /** Compute `e` into `to`. All of a wide value is computed before any of it is set. */
  into(e: Expr, to: readonly Local[]): void {
    if (isWide(e.type)) {
      for (const l of this.wide(e)) this.f.get(l);
      for (const l of [...to].reverse()) this.f.set(l);
    } else {
      this.push(e);
      this.f.set(to[0]!);
    }
  }

  /** Push a value that is not wide. */
  push(e: Expr): void {
    const { f } = this;
    const { dtype, lanes } = e.type;
    switch (e.op) {
      case 'const':
        this.#constant(dtype, e.arg);
        return;
      case 'param':
        f.get(this.params.get(e.arg) ?? fail(`parameter ${e.arg.name} is not declared`));
        return;
      case 'special': {
        const local = this.specials.get(e.arg);
        if (local) f.get(local);
        else f.i32(e.arg.startsWith('blockDim') ? 1 : 0);
        return;
      }
      case 'variable':
        f.get(this.variables.get(e.arg)?.[0] ?? fail(`${e.arg.name} is read before it is declared`));
        return;
      case 'alu':
        lanes > 1 ? this.#alu4(e) : this.#alu(e);
        return;
      case 'cast': {
        const from = e.src[0] as Expr;
        if (isWide(from.type)) {
          this.#gather(e.type, this.wide(from), (l) => {
            f.get(l);
            convert(f, from.type.dtype, dtype);
          });
          return;
        }
        this.push(from);
        if (lanes > 1) convert4(f, from.type.dtype, dtype);
        else convert(f, from.type.dtype, dtype);
        return;
      }
      case 'bitcast':
        this.#bitcast(e.src[0] as Expr, e.type);
        return;
      case 'select':
        this.#select(e);
        return;
      case 'splat':
        this.#splat(e.src[0] as Expr);
        return;
      case 'vector':
        this.#vector(e);
        return;
      case 'lane': {
        const from = e.src[0] as Expr;
        if (isWide(from.type)) {
          f.get(this.wide(from)[e.arg]!);
          return;
        }
        this.push(from);
        this.extract(dtype, e.arg);
        return;
      }
      case 'load':
        load(this, e);
        return;
      case 'intrinsic':
        atomic(this, e);
        return;
    }
  }

  /** Compute a wide value into locals, one per lane. */
  wide(e: Expr): readonly Local[] {
    return wide(this, e);
  }

  /** Compute a value that is not wide into a fresh local. */
  keep(e: Expr): Local {
    const local = this.f.local('kept', holderOf(e.type));
    this.push(e);
    this.f.set(local);
    return local;
  }

  #constant(dtype: DType, v: number | bigint | boolean): void {
    switch (laneType(dtype)) {
      case 'i32':
        this.f.i32(Number(v));
        return;
      case 'i64':
        this.f.op('i64.const', BigInt.asIntN(64, BigInt(v)));
        return;
      case 'f32':
        this.f.op('f32.const', Number(v));
        return;
      case 'f64':
        this.f.op('f64.const', Number(v));
        return;
    }
  }

  #alu(e: Extract<Expr, { op: 'alu' }>): void {
    const operands = e.src as readonly Expr[];
    const safe = isSafeDivisor(operands[1]);
    this.apply(
      e.arg,
      operands[0]!.type.dtype,
      operands.map((o) => () => this.push(o)),
      safe,
    );
  }

  /** One lane of an op. */
  apply(name: ScalarOp, t: DType, operands: readonly (() => void)[], safeDivisor: boolean): void {
    const { f } = this;
    const type = laneType(t);
    const rule: OpInstructions = ruleOf(name);
    const context = this.#context(t, safeDivisor);
    if (name === 'fma') {
      const float = type === 'f64' ? 'f64' : 'f32';
      if (this.module.fma && t.name === 'f32') {
        // By the fused instruction, which only vectors have: what is computed in two kernels, in vectors and not, has
        // the same bits (the gradient of max asks which element it was).
        for (const push of operands) {
          push();
          f.op('f32x4.splat');
        }
        f.op('f32x4.relaxed_madd');
        f.op('f32x4.extract_lane', 0);
        return;
      }
      operands[0]!();
      operands[1]!();
      f.op(`${float}.mul`);
      operands[2]!();
      f.op(`${float}.add`);
    } else {
      for (const push of operands) push();
      if (t.name === 'bool' && name === 'not') f.op('i32.eqz');
      else if (type === 'f32' || type === 'f64') (rule.float ?? missing(name, t))(context, type);
      else (rule.int ?? missing(name, t))(context, type);
    }
    if (OPS[name].result === 'same') this.#narrow(t, false);
  }

  #context(t: DType, safeDivisor: boolean): OpContext {
    return {
      f: this.f,
      unsigned: isUnsigned(t),
      relaxed: this.module.fma,
      safeDivisor,
      helper: (name) => this.module.helper(name),
    };
  }

  /** Bring a result back into the range of a dtype smaller than what holds it. */
  #narrow(t: DType, four: boolean): void {
    if (isByte(t)) cutToByte(this.f, t, four);
    else if (t.name === 'f16' || t.name === 'bf16') {
      roundToHalf(this.f, t.name, four);
    }
  }

  #alu4(e: Extract<Expr, { op: 'alu' }>): void {
    const { f } = this;
    const operands = e.src as readonly Expr[];
    const [a, b, c] = operands as [Expr, Expr, Expr];
    const t = a.type.dtype;
    if (isWide(a.type)) {
      const parts = operands.map((o) => this.wide(o));
      const lanes = parts[0]!.map((_, lane) => lane);
      this.#gather(e.type, lanes, (lane) =>
        this.apply(
          e.arg,
          t,
          parts.map((p) => () => f.get(p[lane]!)),
          false,
        ),
      );
      return;
    }
    const isFloat = t.kind === 'float';
    const rule: OpInstructions = ruleOf(e.arg);
    const context = this.#context(t, false);
    if (e.arg === 'fma') {
      this.push(a);
      this.push(b);
      if (this.module.fma && t.name === 'f32') {
        this.push(c);
        f.op('f32x4.relaxed_madd');
      } else {
        f.op('f32x4.mul');
        this.push(c);
        f.op('f32x4.add');
      }
    } else if ((e.arg === 'shl' || e.arg === 'shr') && b.op === 'splat') {
      this.push(a);
      this.push(b.src[0] as Expr);
      f.op(e.arg === 'shl' ? 'i32x4.shl' : `i32x4.shr_${context.unsigned ? 'u' : 's'}`);
    } else if (isFloat && (e.arg === 'min' || e.arg === 'max') && (isNumber(a) || isNumber(b))) {
      // The engine's min and max take nine instructions for NaN; with a number on one side this one is enough.
      const number = isNumber(b) ? b : a;
      this.push(isNumber(b) ? a : b);
      this.push(number);
      f.op(`f32x4.p${e.arg}`);
      if (isZero(number)) {
        // Of zeros it gives the other side's: +0 must win for max, as by adding it, −0 for min.
        this.push(number);
        f.op(e.arg === 'max' ? 'f32x4.add' : 'v128.or');
      }
    } else if (isFloat ? rule.float4 : rule.int4) {
      for (const o of operands) this.push(o);
      (isFloat ? rule.float4 : rule.int4)?.(context);
    } else {
      const kept = operands.map((o) => this.keep(o));
      const lanes = Array.from({ length: e.type.lanes }, (_, i) => i);
      const pushes = (lane: number) =>
        kept.map((k) => () => {
          f.get(k);
          this.extract(t, lane);
        });
      this.#gather(e.type, lanes, (lane) => this.apply(e.arg, t, pushes(lane), false));
    }
    if (OPS[e.arg].result === 'same') this.#narrow(t, true);
  }

  /** Make a vector of scalars that `push` leaves on the stack one by one. */
  #gather<T>(t: ValueType, lanes: readonly T[], push: (lane: T) => void): void {
    const shape = laneType(t.dtype) === 'f32' ? 'f32x4' : 'i32x4';
    const scalar = (lane: T): void => {
      if (t.dtype.name === 'bool') this.f.i32(0);
      push(lane);
      if (t.dtype.name === 'bool') this.f.op('i32.sub');
    };
    lanes.forEach((lane, i) => {
      if (i === 0) {
        scalar(lane);
        this.f.op(`${shape}.splat`);
      } else {
        scalar(lane);
        this.f.op(`${shape}.replace_lane`, i);
      }
    });
  }

  /** [vector] → its lane. */
  extract(t: DType, lane: number): void {
    this.f.op(laneType(t) === 'f32' ? 'f32x4.extract_lane' : 'i32x4.extract_lane', lane);
    if (t.name === 'bool') {
      this.f.i32(1);
      this.f.op('i32.and');
    }
  }

  #splat(of: Expr): void {
    const { f } = this;
    if (of.op === 'const') {
      f.op('v128.const', vectorBytes(of.type.dtype, [of.arg, of.arg, of.arg, of.arg]));
    } else if (!loadSplat(this, of)) {
      this.#gather(of.type, [of], () => this.push(of));
    }
  }

  #vector(e: Expr): void {
    const sources = e.src as readonly Expr[];
    const values = sources.map((s) => (s.op === 'const' ? s.arg : undefined));
    if (values.every((v) => v !== undefined)) {
      this.f.op('v128.const', vectorBytes(e.type.dtype, values as (number | boolean)[]));
    } else if (!this.#shuffle(sources)) {
      this.#gather(e.type, sources, (s) => this.push(s));
    }
  }

  /** Four lanes of one or two vectors in variables: one instruction. */
  #shuffle(sources: readonly Expr[]): boolean {
    const from: Expr[] = [];
    const bytes: number[] = [];
    for (const s of sources) {
      const v = s.src[0] as Expr | undefined;
      if (s.op !== 'lane' || v?.op !== 'variable' || v.type.lanes !== 4 || isWide(v.type)) return false;
      let side = from.findIndex((known) => sameLeaf(known, v));
      if (side < 0) side = from.push(v) - 1;
      if (side > 1) return false;
      for (let b = 0; b < 4; b++) bytes.push(16 * side + 4 * s.arg + b);
    }
    if (sources.length !== 4) return false;
    this.push(from[0]!);
    this.push(from[1] ?? from[0]!);
    this.f.op('i8x16.shuffle', bytes);
    return true;
  }

  #bitcast(from: Expr, to: ValueType): void {
    const { f } = this;
    const source = from.type.dtype;
    const four = to.lanes > 1;
    this.push(from);
    if (source === to.dtype) return;
    if (isPair(to.dtype, from.type)) {
      toHalf(f, source.name as 'f16' | 'bf16', true);
      const bits = f.local('pair', 'v128');
      f.tee(bits);
      f.op('i32x4.extract_lane', 0);
      f.get(bits);
      f.op('i32x4.extract_lane', 1);
      f.i32(16);
      f.op('i32.shl');
      f.op('i32.or');
      return;
    }
    if (source.name === 'f16' || source.name === 'bf16') {
      // Both are held as f32, so their bits change.
      toHalf(f, source.name, four);
      if (to.dtype.name === 'f16' || to.dtype.name === 'bf16') fromHalf(f, to.dtype.name, four);
    } else if (source.bytes === 1) {
      if (four) convert4(f, source, to.dtype);
      else convert(f, source, to.dtype);
    } else if (!four) {
      this.reinterpret(source, to.dtype);
    }
  }

  reinterpret(from: DType, to: DType): void {
    const a = laneType(from);
    const b = laneType(to);
    if (a === 'f32' && b === 'i32') this.f.op('i32.reinterpret_f32');
    else if (a === 'i32' && b === 'f32') this.f.op('f32.reinterpret_i32');
    else if (a === 'f64' && b === 'i64') this.f.op('i64.reinterpret_f64');
    else if (a === 'i64' && b === 'f64') this.f.op('f64.reinterpret_i64');
  }

  #select(e: Expr): void {
    const { f } = this;
    const [condition, then, otherwise] = e.src as [Expr, Expr, Expr];
    if (condition.type.lanes > 1 && this.#selectMinMax(condition, then, otherwise)) return;
    this.push(then);
    this.push(otherwise);
    if (condition.type.lanes > 1) {
      this.push(condition);
      f.op('v128.bitselect');
    } else {
      this.push(condition);
      f.op('select');
    }
  }

  /** `a < b ? a : b` and its kin are one instruction on f32. */
  #selectMinMax(condition: Expr, then: Expr, otherwise: Expr): boolean {
    if (condition.op !== 'alu' || (condition.arg !== 'lt' && condition.arg !== 'gt')) return false;
    const [p, q] = condition.src as [Expr, Expr];
    if (p.type.dtype.name !== 'f32') return false;
    const straight = sameLeaf(p, then) && sameLeaf(q, otherwise);
    const crossed = sameLeaf(p, otherwise) && sameLeaf(q, then);
    if (!straight && !crossed) return false;
    // pmin(a, b) is b < a ? b : a, pmax(a, b) is a < b ? b : a: the second is what an ordered comparison chooses.
    this.push(otherwise);
    this.push(then);
    this.f.op((condition.arg === 'lt') === straight ? 'f32x4.pmin' : 'f32x4.pmax');
    return true;
  }
}

function sameLeaf(a: Expr, b: Expr): boolean {
  if (a === b) return true;
  if (a.op === 'splat' && b.op === 'splat') return sameLeaf(a.src[0] as Expr, b.src[0] as Expr);
  return a.op === b.op && a.src.length === 0 && Object.is(a.arg, b.arg) && a.type.dtype === b.type.dtype;
}

/** A constant that is not NaN. */
function isNumber(e: Expr): boolean {
  const scalar = e.op === 'splat' ? e.src[0]! : e;
  return scalar.op === 'const' && !Number.isNaN(Number(scalar.arg));
}

function isZero(e: Expr): boolean {
  const scalar = e.op === 'splat' ? e.src[0]! : e;
  return scalar.op === 'const' && Number(scalar.arg) === 0;
}

const isSafeDivisor = (e: Expr | undefined): boolean =>
  e?.op === 'const' && Number(e.arg) !== 0 && Number(e.arg) !== -1 && Number(e.arg) !== 0xffffffff;

function missing(name: ScalarOp, t: DType): never {
  throw new InternalError(
    `${name} on ${t.name} has no WebAssembly form: kernel/passes/decompose.ts comes first`,
  );
}
