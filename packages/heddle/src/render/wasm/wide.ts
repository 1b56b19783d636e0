/** Vectors of 64-bit elements: computed lane by lane, into a local each. */
import type { Expr } from '../../kernel/ir/ir.js';
import { convert } from './convert.js';
import type { WasmEmitter } from './emitter.js';
import type { Local } from './encode.js';
import { fail, isWide, laneType } from './values.js';

/** Compute `e` into locals, one per lane. */
export function wide(x: WasmEmitter, e: Expr): readonly Local[] {
  const { f } = x;
  const lanes = Array.from({ length: e.type.lanes }, (_, i) => i);
  const each = (push: (lane: number) => void): Local[] =>
    lanes.map((lane) => {
      const local = f.local('lane', laneType(e.type.dtype));
      push(lane);
      f.set(local);
      return local;
    });
  switch (e.op) {
    case 'variable':
      return x.variables.get(e.arg) ?? fail(`${e.arg.name} is read before it is declared`);
    case 'splat': {
      const local = f.local('splat', laneType(e.type.dtype));
      x.push(e.src[0] as Expr);
      f.set(local);
      return lanes.map(() => local);
    }
    case 'vector':
      return each((lane) => x.push(e.src[lane] as Expr));
    case 'alu': {
      const operands = e.src.map((s) => x.wide(s as Expr));
      return each((lane) =>
        x.apply(
          e.arg,
          e.type.dtype,
          operands.map((o) => () => f.get(o[lane]!)),
          false,
        ),
      );
    }
    case 'cast': {
      const from = e.src[0] as Expr;
      if (isWide(from.type)) {
        const parts = x.wide(from);
        return each((lane) => {
          f.get(parts[lane]!);
          convert(f, from.type.dtype, e.type.dtype);
        });
      }
      const whole = x.keep(from);
      return each((lane) => {
        f.get(whole);
        x.extract(from.type.dtype, lane);
        convert(f, from.type.dtype, e.type.dtype);
      });
    }
    case 'bitcast': {
      const from = x.wide(e.src[0] as Expr);
      return each((lane) => {
        f.get(from[lane]!);
        x.reinterpret((e.src[0] as Expr).type.dtype, e.type.dtype);
      });
    }
    case 'select': {
      const [condition, then, otherwise] = e.src as [Expr, Expr, Expr];
      const mask = x.keep(condition);
      const a = x.wide(then);
      const b = x.wide(otherwise);
      return each((lane) => {
        f.get(a[lane]!);
        f.get(b[lane]!);
        f.get(mask);
        if (condition.type.lanes > 1) f.op('i32x4.extract_lane', lane);
        f.op('select');
      });
    }
    case 'load': {
      const base = x.keep(e.src[1] as Expr);
      const offset = Number(e.src[2]!.arg);
      const type = e.type.dtype.name === 'f64' ? 'f64' : 'i64';
      return each((lane) => {
        f.get(base);
        f.op(`${type}.load`, undefined, offset + 8 * lane);
      });
    }
    default:
      return fail(`${e.op} has no wide form`);
  }
}
