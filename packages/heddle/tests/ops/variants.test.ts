/**
 * Every variant of products, convolutions, pooling and recurrent layers, the vendor's among them, against the composition in f64. Without
 * a GPU there is one way for each, that of the CPU.
 */
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { type DType, f32, f64 } from '../../src/core/dtype.js';
import { PRECISIONS, type Precision } from '../../src/core/precision.js';
import { CompiledGraph } from '../../src/engine/program.js';
import * as b from '../../src/graph/build.js';
import { callOf } from '../../src/graph/fused-op.js';
import type { GraphNode } from '../../src/graph/node.js';
import { conv2d, conv2dInputOp, conv2dWeightOp } from '../../src/ops/conv2d/op.js';
import { matmul } from '../../src/ops/matmul/op.js';
import { maxPool2d } from '../../src/ops/max-pool2d/op.js';
import { CELLS } from '../../src/ops/recurrent/cells.js';
import { recurrentGradientOp, recurrentOp } from '../../src/ops/recurrent/op.js';
import type { Device, DeviceBuffer } from '../../src/runtime/device.js';
import { closeDevices, listDevices, openDevice } from '../../src/runtime/registry.js';
import type { Tune } from '../../src/schedule/passes/tuning.js';

const available = listDevices().some((d) => d.name === 'cuda' && d.available);
after(closeDevices);

let state = 7;
const random = (n: number): Float32Array =>
  Float32Array.from({ length: n }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  });

type Leaf = (...shape: number[]) => GraphNode;

/** + bias along the channels (or the columns), ReLU. */
function followed(y: GraphNode, bias: GraphNode, axis: number): GraphNode {
  const shape = y.shape.map((n, i) => (i === axis ? n : 1));
  return b.map('max', b.add(y, b.expand(b.reshape(bias, shape), y.shape)), b.full(y.shape, y.dtype, 0));
}

/** Of the largest result: sums in another order, and operands of 11 and of 8 bits. */
const TOLERANCE: Readonly<Record<Precision, number>> = { f32: 3e-6, tf32: 1e-3, bf16: 8e-3 };

interface Case {
  readonly name: string;
  readonly precision: Precision;
  readonly leaves: readonly GraphNode[];
  readonly root: GraphNode;
}

function products(leaf: Leaf, precision: Precision): Case[] {
  return (
    [
      [64, 784, 128],
      [64, 4608, 10],
      [128, 64, 784],
      [257, 129, 100],
      [1, 300, 17],
    ] as const
  ).flatMap(([M, K, N]): Case[] => {
    const bias = leaf(N);
    const [x, xt, y, yt] = [leaf(M, K), leaf(K, M), leaf(K, N), leaf(N, K)];
    const size = `${M}×${K}×${N} ${precision}`;
    const common = { precision };
    return [
      { ...common, name: `${size} a b`, leaves: [x, y], root: matmul(x, y, precision) },
      { ...common, name: `${size} aᵀ b`, leaves: [xt, y], root: matmul(b.transpose(xt), y, precision) },
      {
        ...common,
        name: `${size} a bᵀ, bias, ReLU`,
        leaves: [x, yt, bias],
        root: followed(matmul(x, b.transpose(yt), precision), bias, 1),
      },
    ];
  });
}

function convolutions(leaf: Leaf, precision: Precision): Case[] {
  return (
    [
      { x: [4, 1, 28, 28], out: 16, k: 3, options: {} },
      { x: [4, 16, 26, 26], out: 32, k: 3, options: { padding: 1 } },
      { x: [3, 6, 15, 14], out: 8, k: 5, options: { stride: 2, padding: 2, groups: 2 } },
    ] as const
  ).flatMap(({ x: shape, out, k, options }): Case[] => {
    const [x, w] = [leaf(...shape), leaf(out, shape[1] / ('groups' in options ? options.groups : 1), k, k)];
    const bias = leaf(out);
    const y = conv2d(x, w, { ...options, precision });
    const { arg } = callOf(y);
    const g = leaf(...y.shape);
    const common = { precision };
    const name = `${shape.join('×')} → ${out}, ${precision},`;
    return [
      { ...common, name: `${name} forward`, leaves: [x, w], root: y },
      { ...common, name: `${name} forward, bias, ReLU`, leaves: [x, w, bias], root: followed(y, bias, 1) },
      { ...common, name: `${name} input`, leaves: [g, w], root: b.call(conv2dInputOp, [g, w], arg as never) },
      {
        ...common,
        name: `${name} weight`,
        leaves: [x, g],
        root: b.call(conv2dWeightOp, [x, g], arg as never),
      },
    ];
  });
}

function poolings(leaf: Leaf): Case[] {
  const x = leaf(4, 6, 13, 12);
  const bias = leaf(6);
  const y = maxPool2d(x, [3, 2], { stride: 2, padding: [1, 0] });
  return [
    { precision: 'f32', name: 'max pooling', leaves: [x], root: y },
    { precision: 'f32', name: 'max pooling, bias, ReLU', leaves: [x, bias], root: followed(y, bias, 1) },
  ];
}

/** All steps of a layer, and its gradient. */
function recurrents(leaf: Leaf): Case[] {
  const [steps, rows] = [3, 33];
  return (
    [
      ['tanh', 256],
      ['gru', 100],
      ['lstm', 100],
      ['lstm', 300],
    ] as const
  ).flatMap(([cell, size]): Case[] => {
    const { gates, states } = CELLS[cell];
    const products = (): GraphNode => leaf(steps, rows, gates * size);
    const all = (): GraphNode => leaf(steps, rows, states * size);
    const first = [leaf(rows, size), leaf(rows, size)];
    // Weights such that a step does not make errors larger.
    const [w, wt] = [leaf(size, gates * size), leaf(gates * size, size)];
    const scaled = (x: GraphNode): GraphNode => b.mul(x, b.like(x, 1 / Math.sqrt(size)));
    const forward = [products(), w, leaf(gates * size), ...first];
    const back = [all(), all(), products(), products(), wt, ...first];
    const call = (op: typeof recurrentOp, src: readonly GraphNode[]): GraphNode =>
      b.call(
        op,
        src.map((x) => (x === w || x === wt ? scaled(x) : x)),
        { cell },
      );
    const name = `${cell} of ${size}`;
    return [
      { precision: 'f32', name, leaves: forward, root: call(recurrentOp, forward) },
      {
        precision: 'f32',
        name: `${name}, gradient`,
        leaves: back,
        root: call(recurrentGradientOp, back),
      },
    ];
  });
}

const casesOf = (dtype: DType): Case[] => {
  const leaf: Leaf = (...shape) => b.leaf(shape, dtype, false);
  return [
    ...PRECISIONS.flatMap((p) => [...products(leaf, p), ...convolutions(leaf, p)]),
    ...poolings(leaf),
    ...recurrents(leaf),
  ];
};

async function compute(
  device: Device,
  { leaves, root }: Case,
  values: readonly (Float32Array | Float64Array)[],
  options: { readonly kernels?: boolean; readonly tune?: Tune },
): Promise<Float32Array | Float64Array> {
  const buffers = values.map((v): DeviceBuffer => {
    const buffer = device.allocate(v.byteLength, 'test');
    device.write(buffer, new Uint8Array(v.buffer));
    return buffer;
  });
  const compiled = new CompiledGraph([root], leaves.length, device, options);
  try {
    const [result] = compiled.run(buffers, 'test', false);
    const { buffer } = await device.read(result!.buffer, 0, root.dtype.bytes * root.size);
    result!.release();
    return root.dtype === f64
      ? new Float64Array(buffer, 0, root.size)
      : new Float32Array(buffer, 0, root.size);
  } finally {
    compiled.dispose();
    for (const buffer of buffers) device.free(buffer);
  }
}

describe('variants', () => {
  const exact = casesOf(f64);
  casesOf(f32).forEach((of, i) => {
    test(of.name, async (t) => {
      const device = openDevice(available ? 'cuda' : 'cpu');
      const values = of.leaves.map((l) => random(l.size));
      const wide = values.map((v) => Float64Array.from(v));
      const expected = await compute(openDevice('cpu'), exact[i]!, wide, { kernels: false });
      let scale = 0;
      for (const v of expected) scale = Math.max(scale, Math.abs(v));
      const names = new Set<string>();
      await compute(device, of, values, {
        tune: (requests) => {
          for (const v of requests.flatMap((r) => r.variants)) names.add(v.name);
          return [];
        },
      });
      let none = 0;
      for (const name of [undefined, ...names]) {
        let actual: Float32Array | Float64Array;
        try {
          actual = await compute(device, of, values, { tune: () => [name] });
        } catch (error) {
          // A library may have fewer proposals than are asked for.
          assert.match(String(error), /proposes \d+ .*, asked for/, name);
          none++;
          continue;
        }
        for (let k = 0; k < expected.length; k++) {
          if (Math.abs(actual[k]! - expected[k]!) <= TOLERANCE[of.precision] * Math.max(1, scale)) continue;
          assert.fail(
            `${name ?? 'the guess'}: element ${k} is ${actual[k]} instead of ${expected[k]}, of ${scale}`,
          );
        }
      }
      t.diagnostic(`${names.size - none} variants: ${[...names].join(', ')}`);
    });
  });
});
