/** How products and convolutions are put to the vendor's libraries, and what follows them. Needs no library. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { f32 } from '../../src/core/dtype.js';
import { CompiledGraph } from '../../src/engine/program.js';
import * as b from '../../src/graph/build.js';
import type { FusedOp, KernelIo, Stage, Variant } from '../../src/graph/fused-op.js';
import type { GraphNode } from '../../src/graph/node.js';
import type { Target } from '../../src/kernel/ir/target.js';
import { buffer, defineKernel } from '../../src/kernel/language/index.js';
import { cublasLtVariants, cudnnVariants } from '../../src/ops/vendor.js';
import { SimDevice } from '../../src/runtime/sim/device.js';
import { SIM_TARGET } from '../../src/runtime/sim/launch.js';
import { schedule } from '../../src/schedule/schedule.js';

const WITH_LIBRARIES: Target = {
  ...SIM_TARGET,
  libraries: new Set(['cublaslt.matmul', 'cudnn.convolution']),
};

/** An op with the given output whose only kernel is the first of `variants`; keeps all it was given. */
function vendorOp(
  shape: readonly number[],
  variants: (io: KernelIo) => readonly Variant[],
): { op: FusedOp<null>; given: Variant[] } {
  const given: Variant[] = [];
  const op: FusedOp<null> = {
    name: 'vendor',
    infer: ([x]) => ({ shape, dtype: x!.dtype }),
    compose: ([x]) => x!,
    kernels: [
      {
        name: 'vendor',
        when: () => true,
        strided: [true, true],
        finishes: true,
        plan(io) {
          given.push(...variants(io));
          return given[0]?.plan() ?? [];
        },
      },
    ],
  };
  return { op, given };
}

const leaf = (...shape: number[]): GraphNode => b.leaf(shape, f32, false);

/** The options of the one call that the product of these operands becomes; undefined if it is none. */
function productOptions(x: GraphNode, y: GraphNode): Record<string, unknown> | undefined {
  const shape = [...x.shape.slice(0, -1), y.shape.at(-1)!];
  const { op, given } = vendorOp(shape, (io) => cublasLtVariants(io, 'f32'));
  const { launches } = schedule([b.call(op, [x, y], null)], WITH_LIBRARIES);
  if (given.length === 0) return undefined;
  assert.deepEqual(
    given.map((v) => v.name),
    ['cublaslt', 'cublaslt 2', 'cublaslt 3'],
  );
  const { work } = launches.at(-1)!;
  assert.ok('library' in work);
  return work.library.options;
}

describe('matrix products for cuBLASLt', () => {
  test('contiguous and transposed operands', () => {
    const plain = productOptions(leaf(5, 7), leaf(7, 3));
    assert.deepEqual(
      [plain?.a, plain?.b],
      [
        [0, 7, 0, 0],
        [0, 3, 0, 0],
      ],
    );
    assert.deepEqual([plain?.M, plain?.K, plain?.N, plain?.batches], [5, 7, 3, 1]);
    const transposed = productOptions(b.transpose(leaf(7, 5)), b.transpose(leaf(3, 7)));
    assert.deepEqual(
      [transposed?.a, transposed?.b],
      [
        [1, 5, 0, 0],
        [1, 7, 0, 0],
      ],
    );
  });

  test('batches, with one side for all of them', () => {
    const options = productOptions(leaf(4, 6, 5, 7), b.expand(leaf(1, 1, 7, 3), [4, 6, 7, 3]));
    assert.deepEqual(
      [options?.a, options?.b],
      [
        [0, 7, 35, 0],
        [0, 3, 0, 0],
      ],
    );
    assert.equal(options?.batches, 24);
  });

  test('a bias along the rows and a ReLU are left to the library, and only these', () => {
    const [M, N] = [5, 3];
    const bias = b.expand(b.reshape(leaf(N), [1, N]), [M, N]);
    const column = b.expand(leaf(M, 1), [M, N]);
    const zero = b.full([M, N], f32, 0);
    const after = (follow: (y: GraphNode) => GraphNode): readonly [unknown, unknown, number, number] => {
      const { op } = vendorOp([M, N], (io) => cublasLtVariants(io, 'f32'));
      const { launches } = schedule([follow(b.call(op, [leaf(M, 7), leaf(7, N)], null))], WITH_LIBRARIES);
      const { work, args } = launches[0]!;
      assert.ok('library' in work);
      return [work.library.options.bias, work.library.options.relu, args.length, launches.length];
    };
    const relu = (y: GraphNode): GraphNode => b.map('max', y, zero);
    assert.deepEqual(
      after((y) => y),
      [undefined, undefined, 3, 1],
    );
    assert.deepEqual(
      after((y) => b.add(y, bias)),
      [true, undefined, 4, 1],
    );
    assert.deepEqual(after(relu), [undefined, true, 3, 1]);
    assert.deepEqual(
      after((y) => relu(b.add(bias, y))),
      [true, true, 4, 1],
    );
    for (const other of [
      (y: GraphNode) => b.add(relu(y), bias),
      (y: GraphNode) => b.add(y, column),
      (y: GraphNode) => b.map('max', y, b.full([M, N], f32, 1)),
      (y: GraphNode) => b.neg(relu(y)),
    ])
      assert.deepEqual(after(other), [undefined, undefined, 3, 2]);
  });

  test('a part of a larger matrix', () => {
    const part = b.slice(leaf(10, 9), [2, 1], [5, 7]);
    assert.deepEqual(productOptions(part, leaf(7, 3))?.a, [0, 9, 0, 19]);
  });

  test('batches that no single stride walks are left to our own kernels', () => {
    const twisted = b.permute(leaf(4, 6, 5, 7), [1, 0, 2, 3]);
    assert.equal(productOptions(twisted, leaf(6, 4, 7, 3)), undefined);
    const repeated = b.expand(leaf(1, 7), [5, 7]);
    assert.equal(productOptions(repeated, leaf(7, 3)), undefined);
  });
});

describe('convolutions for cuDNN', () => {
  const arg = { stride: [1, 1], padding: [1, 1], dilation: [1, 1], kernel: [3, 3], groups: 1 } as const;
  const [x, w, y] = [
    [2, 4, 8, 8],
    [6, 4, 3, 3],
    [2, 6, 8, 8],
  ] as const;
  const cases = [
    ['forward', x, w, y],
    ['input', y, w, x],
    ['weight', x, y, w],
  ] as const;
  for (const [direction, first, second, result] of cases) {
    test(direction, () => {
      const { op } = vendorOp(result, (io) => cudnnVariants(io, arg, direction, 'f32'));
      const node = b.call(op, [leaf(...first), leaf(...second)], null);
      const { work } = schedule([node], WITH_LIBRARIES).launches[0]!;
      assert.ok('library' in work);
      const { options } = work.library;
      assert.deepEqual([options.x, options.w, options.y], [x, w, y]);
      assert.equal(options.direction, direction);
    });
  }

  test('none without the library, and none in bf16', () => {
    for (const [target, precision] of [
      [SIM_TARGET, 'f32'],
      [WITH_LIBRARIES, 'bf16'],
    ] as const) {
      const { op, given } = vendorOp(y, (io) => cudnnVariants(io, arg, 'forward', precision));
      schedule([b.call(op, [leaf(...x), leaf(...w)], null)], target);
      assert.deepEqual(given, []);
    }
  });
});

describe('what follows a routine', () => {
  for (const [M, N] of [
    [3, 8],
    [5, 7],
  ] as const) {
    test(`(${M}, ${N})`, async () => {
      // A kernel in the routine's place writes 0, 1, 2…; bias and ReLU follow.
      const { op } = vendorOp([M, N], (io) => {
        const { node, target } = io;
        const [variant] = cublasLtVariants(
          { ...io, target: { ...target, ...WITH_LIBRARIES }, epilogue: undefined },
          'f32',
        );
        const [call, finish] = variant!.plan() as readonly [Stage, Stage];
        const kernel = defineKernel(
          'count',
          { out: buffer(f32) },
          ({ out }, { globalId, f32, COUNT }) => {
            if (globalId.x < COUNT) out[globalId.x] = f32(globalId.x);
          },
          { COUNT: node.size },
        );
        const first: Stage = { kernel, grid: [2, 1, 1], block: [32, 1, 1], args: [call.args[2]!] };
        return [{ name: 'stand-in', plan: () => [first, finish] }];
      });
      const bias = leaf(N);
      const product = b.call(op, [leaf(M, 2), leaf(2, N)], null);
      const root = b.map(
        'max',
        b.add(product, b.expand(b.reshape(bias, [1, N]), [M, N])),
        b.full([M, N], f32, 0),
      );
      const device = new SimDevice();
      const leaves = [M * 2, 2 * N, N].map((n) => device.allocate(4 * n, 'test'));
      const values = Float32Array.from({ length: N }, (_, i) => 4 - 3 * i);
      device.write(leaves[2]!, new Uint8Array(values.buffer));
      const compiled = new CompiledGraph([root], leaves.length, device);
      const [result] = compiled.run(leaves, 'test', false);
      const bytes = await device.read(result!.buffer);
      assert.deepEqual(
        [...new Float32Array(bytes.buffer, 0, M * N)],
        Array.from({ length: M * N }, (_, i) => Math.max(0, i + values[i % N]!)),
      );
    });
  }
});
