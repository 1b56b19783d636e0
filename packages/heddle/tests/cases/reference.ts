/** A slow, plain interpreter of graphs, for tests: the primitives' meanings, one element at a time. */
import type { DType } from '../../src/core/dtype.js';
import { topological } from '../../src/core/node.js';
import { sizeOf, stridesOf } from '../../src/core/shape.js';
import { callOf } from '../../src/graph/fused-op.js';
import { argOf, type GraphNode, type WindowArg } from '../../src/graph/node.js';
import { convert, evaluate, type Scalar } from '../../src/kernel/ir/ops.js';

/** Values of a node in row-major order. */
export type Values = readonly Scalar[];

/** Of every element of `shape` in row-major order: where it is in memory with these strides. */
function places(shape: readonly number[], strides: readonly number[], offset = 0): Float64Array {
  let out = Float64Array.of(offset);
  shape.forEach((size, d) => {
    const wider = new Float64Array(out.length * size);
    for (let i = 0, to = 0; i < out.length; i++)
      for (let k = 0; k < size; k++) wider[to++] = out[i]! + k * strides[d]!;
    out = wider;
  });
  return out;
}

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
  const size = sizeOf(shape);
  const [x] = src as [Values];
  const from = node.src[0]?.shape ?? [];
  const strides = stridesOf(from);
  const all = (value: Scalar): Scalar[] => new Array<Scalar>(size).fill(value);
  /** The elements of `x` as a view has them. */
  const read = (by: readonly number[], offset?: number): Scalar[] => {
    const from = places(shape, by, offset);
    const out = new Array<Scalar>(from.length);
    for (let i = 0; i < out.length; i++) out[i] = x[from[i]!]!;
    return out;
  };
  /** Adds each element of `x` to that of the output at its place. */
  const addTo = (to: ArrayLike<number>): Scalar[] => {
    const out = all(zeroOf(dtype));
    x.forEach((v, i) => {
      if (to[i]! >= 0) out[to[i]!] = evaluate('add', dtype, out[to[i]!]!, v);
    });
    return out;
  };
  /** Strides of the elements of windows over an image with these strides. */
  const windowed = (image: readonly number[], { stride, dilation }: WindowArg): number[] => {
    const [h, w] = image.slice(-2) as [number, number];
    return [...image.slice(0, -2), h * stride[0], w * stride[1], h * dilation[0], w * dilation[1]];
  };
  switch (node.op) {
    case 'full':
      return all(argOf(node, 'full').value);
    case 'iota': {
      const { axis } = argOf(node, 'iota');
      return [
        ...places(
          shape,
          shape.map((_, d) => (d === axis ? 1 : 0)),
        ),
      ];
    }
    case 'map': {
      const { op } = argOf(node, 'map');
      const t = node.src[0]!.dtype;
      const [, y, z] = src;
      if (op === 'select') return x.map((v, i) => (v ? y![i]! : z![i]!));
      if (op === 'cast') return x.map((v) => convert(t, dtype, v));
      if (op === 'bitcast') throw new Error('the reference has no bitcast');
      return x.map((v, i) => evaluate(op, t, v, y?.[i] ?? 0, z?.[i] ?? 0));
    }
    case 'reduce': {
      const { op } = argOf(node, 'reduce');
      const out = new Array<Scalar | undefined>(size).fill(undefined);
      const joins = op === 'sum' ? 'add' : op === 'prod' ? 'mul' : op;
      const kept = stridesOf(shape).map((s, d) => (shape[d] === 1 ? 0 : s));
      const to = places(from, kept);
      x.forEach((v, i) => {
        const old = out[to[i]!];
        out[to[i]!] = old === undefined ? v : evaluate(joins, dtype, old, v);
      });
      return out.map((v) => v ?? (op === 'prod' ? 1 : zeroOf(dtype)));
    }
    case 'reshape':
    case 'detach':
      return x;
    case 'permute':
      return read(argOf(node, 'permute').axes.map((axis) => strides[axis]!));
    case 'expand':
      return read(strides.map((s, d) => (from[d] === 1 ? 0 : s)));
    case 'pad': {
      const { before, value } = argOf(node, 'pad');
      const out = all(convert(dtype, dtype, value));
      const outer = stridesOf(shape);
      const first = before.reduce((n, k, d) => n + k * outer[d]!, 0);
      const to = places(from, outer, first);
      x.forEach((v, i) => {
        out[to[i]!] = v;
      });
      return out;
    }
    case 'slice': {
      const { start, step } = argOf(node, 'slice');
      const first = start.reduce((n, k, d) => n + k * strides[d]!, 0);
      return read(
        strides.map((s, d) => s * step[d]!),
        first,
      );
    }
    case 'window':
      return read(windowed(strides, argOf(node, 'window')));
    case 'fold':
      return addTo(places(from, windowed(stridesOf(shape), argOf(node, 'fold'))));
    case 'gather': {
      const { axis } = argOf(node, 'gather');
      const elsewhere = places(
        shape,
        strides.map((s, d) => (d === axis ? 0 : s)),
      );
      return src[1]!.map((position, i) => {
        const at = Number(position);
        return at < 0 || at >= from[axis]! ? zeroOf(dtype) : x[elsewhere[i]! + at * strides[axis]!]!;
      });
    }
    case 'scatterAdd': {
      const { axis } = argOf(node, 'scatterAdd');
      const outer = stridesOf(shape);
      const others = places(
        from,
        outer.map((s, d) => (d === axis ? 0 : s)),
      );
      const index = src[1]!.map(Number);
      return addTo(
        others.map((at, i) =>
          index[i]! >= 0 && index[i]! < shape[axis]! ? at + index[i]! * outer[axis]! : -1,
        ),
      );
    }
    case 'call': {
      const { op, arg } = callOf(node);
      return interpret(
        op.compose(node.src, arg),
        new Map([...leaves, ...node.src.map((s, i) => [s, src[i]!] as const)]),
      );
    }
    default:
      throw new Error(`the reference has no ${node.op}`);
  }
}
