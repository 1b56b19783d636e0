/** A slow, plain interpreter of graphs, for tests: the primitives' meanings, one element at a time. */
import type { DType } from '../src/core/dtype.js';
import { sizeOf, stridesOf } from '../src/core/shape.js';
import { argOf, type GraphNode } from '../src/graph/node.js';
import { topological } from '../src/ir/node.js';
import { convert, evaluate, type Scalar } from '../src/kernel/ops.js';

/** Values of a node in row-major order. */
export type Values = readonly Scalar[];

const unravel = (index: number, shape: readonly number[]): number[] => {
  const at = new Array<number>(shape.length);
  let rest = index;
  for (let d = shape.length - 1; d >= 0; d--) {
    at[d] = rest % shape[d]!;
    rest = Math.floor(rest / shape[d]!);
  }
  return at;
};
const ravel = (at: readonly number[], shape: readonly number[]): number => {
  const strides = stridesOf(shape);
  return at.reduce((n, i, d) => n + i * strides[d]!, 0);
};

/** The values of `root`. @param leaves values of the leaves below it */
export function interpret(root: GraphNode, leaves: ReadonlyMap<GraphNode, Values>): Values {
  const known = new Map<GraphNode, Values>();
  for (const node of topological([root])) {
    const given = leaves.get(node);
    known.set(
      node,
      given ??
        valuesOf(
          node,
          node.src.map((s) => known.get(s)!),
          leaves,
        ),
    );
  }
  return known.get(root)!;
}

const zeroOf = (t: DType): Scalar => (t.name === 'bool' ? false : t.name === 'i64' ? 0n : 0);

function valuesOf(node: GraphNode, src: readonly Values[], leaves: ReadonlyMap<GraphNode, Values>): Values {
  const { shape, dtype } = node;
  const each = (f: (at: number[], i: number) => Scalar): Scalar[] =>
    Array.from({ length: sizeOf(shape) }, (_, i) => f(unravel(i, shape), i));
  const [x] = src as [Values];
  const from = node.src[0]?.shape ?? [];
  const read = (at: readonly number[]): Scalar => x[ravel(at, from)]!;
  switch (node.op) {
    case 'full':
      return each(() => argOf(node, 'full').value);
    case 'iota':
      return each((at) => at[argOf(node, 'iota').axis]!);
    case 'map': {
      const { op } = argOf(node, 'map');
      const t = node.src[0]!.dtype;
      if (op === 'select') return each((_, i) => (src[0]![i] ? src[1]![i]! : src[2]![i]!));
      if (op === 'cast') return each((_, i) => convert(t, dtype, x[i]!));
      if (op === 'bitcast') throw new Error('the reference has no bitcast');
      return each((_, i) => evaluate(op, t, x[i]!, src[1]?.[i] ?? 0, src[2]?.[i] ?? 0));
    }
    case 'reduce': {
      const { op } = argOf(node, 'reduce');
      const out: (Scalar | undefined)[] = new Array(sizeOf(shape));
      x.forEach((v, i) => {
        const at = unravel(i, from).map((k, d) => (shape[d] === 1 ? 0 : k));
        const to = ravel(at, shape);
        const old = out[to];
        out[to] =
          old === undefined ? v : evaluate(op === 'sum' ? 'add' : op === 'prod' ? 'mul' : op, dtype, old, v);
      });
      return Array.from(out, (v) => v ?? (op === 'prod' ? 1 : zeroOf(dtype)));
    }
    case 'reshape':
    case 'detach':
      return x;
    case 'permute': {
      const { axes } = argOf(node, 'permute');
      return each((at) => read(axes.map((_, d) => at[axes.indexOf(d)]!)));
    }
    case 'expand':
      return each((at) => read(at.map((k, d) => (from[d] === 1 ? 0 : k))));
    case 'pad': {
      const { before, value } = argOf(node, 'pad');
      return each((at) => {
        const inside = at.map((k, d) => k - before[d]!);
        return inside.every((k, d) => k >= 0 && k < from[d]!) ? read(inside) : convert(dtype, dtype, value);
      });
    }
    case 'slice': {
      const { start, step } = argOf(node, 'slice');
      return each((at) => read(at.map((k, d) => start[d]! + k * step[d]!)));
    }
    case 'window': {
      const { stride, dilation } = argOf(node, 'window');
      return each((at) => {
        const [oh, ow, kh, kw] = at.slice(-4) as [number, number, number, number];
        return read([
          ...at.slice(0, -4),
          oh * stride[0] + kh * dilation[0],
          ow * stride[1] + kw * dilation[1],
        ]);
      });
    }
    case 'fold': {
      const { stride, dilation } = argOf(node, 'fold');
      const out = each(() => zeroOf(dtype));
      x.forEach((v, i) => {
        const at = unravel(i, from);
        const [oh, ow, kh, kw] = at.slice(-4) as [number, number, number, number];
        const place = [
          ...at.slice(0, -4),
          oh * stride[0] + kh * dilation[0],
          ow * stride[1] + kw * dilation[1],
        ];
        const to = ravel(place, shape);
        out[to] = evaluate('add', dtype, out[to]!, v);
      });
      return out;
    }
    case 'scatterAdd': {
      const { axis } = argOf(node, 'scatterAdd');
      const out = each(() => zeroOf(dtype));
      x.forEach((v, i) => {
        const at = unravel(i, from).map((k, d) => (d === axis ? Number(src[1]![i]) : k));
        if (at[axis]! < 0 || at[axis]! >= shape[axis]!) return;
        const to = ravel(at, shape);
        out[to] = evaluate('add', dtype, out[to]!, v);
      });
      return out;
    }
    case 'call': {
      const { op, arg } = argOf(node, 'call');
      return interpret(
        op.compose(node.src, arg),
        new Map([...leaves, ...node.src.map((s, i) => [s, src[i]!] as const)]),
      );
    }
    default:
      throw new Error(`the reference has no ${node.op}`);
  }
}
