/** The simulator's JavaScript is stable, readable text. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { f32, i32 } from '../../src/core/dtype.js';
import type { Location } from '../../src/core/errors.js';
import {
  type ArrayDecl,
  alu,
  arrayNode,
  barrier,
  block,
  bufferParam,
  declare,
  intrinsic,
  load,
  type Param,
  read,
  scalarParam,
  special,
  store,
  type Variable,
  when,
} from '../../src/kernel/ir/ir.js';
import { buffer, value } from '../../src/kernel/ir/types.js';
import { renderJs } from '../../src/render/js/render.js';

const at = (line: number, text: string): Location => ({ file: 'kernel.ts', line, column: 1, text });
const [x, y]: Param[] = [
  { name: 'x', schema: buffer(f32) },
  { name: 'y', schema: buffer(f32) },
];

test('saxpy is a plain function', () => {
  const n: Param = { name: 'n', schema: i32 };
  const a: Param = { name: 'a', schema: f32 };
  const i: Variable = { name: 'i', type: value(i32), constant: true };
  const index = alu('add', [
    alu('mul', [special('blockIdx.x'), special('blockDim.x')]),
    special('threadIdx.x'),
  ]);
  const ax = alu('mul', [scalarParam(a), load(bufferParam(x!), [read(i)])]);
  const sum = alu('add', [ax, load(bufferParam(y!), [read(i)])]);
  const { source, waits } = renderJs({
    name: 'saxpy',
    params: [a, x!, y!, n],
    arrays: [],
    body: block([
      declare(i, index, at(2, '  const i = globalId.x;')),
      when(
        alu('lt', [read(i), scalarParam(n)]),
        store(bufferParam(y!), sum, [read(i)], at(3, '  if (i < n) y[i] = a * x[i] + y[i];')),
        undefined,
        at(3, '  if (i < n) y[i] = a * x[i] + y[i];'),
      ),
    ]),
  });
  assert.equal(waits, false);
  assert.equal(
    source,
    `// saxpy(a: f32, x: buffer(f32), y: buffer(f32), n: i32)
const a = args[0];
const x$ = args[1], x = x$.data;
const y$ = args[2], y = y$.data;
const n = args[3];
const blockDim_x = run.blockDim[0];
return function (threadIdx_x, threadIdx_y, threadIdx_z, blockIdx_x, blockIdx_y, blockIdx_z) {
  let steps = 0;
  // 2 | const i = globalId.x;
  const i = imul(blockIdx_x, blockDim_x) + threadIdx_x | 0;
  // 3 | if (i < n) y[i] = a * x[i] + y[i];
  if (i < n) {
    const value = fround(fround(a * x[x$.read(i, 1)]) + y[y$.read(i, 2)]);
    y[y$.write(i, 0)] = value;
  }
};
`,
  );
});

test('a kernel that waits is a generator', () => {
  const s: ArrayDecl = { name: 's', dtype: f32, space: 'shared', dims: [4, 8], lanes: 1 };
  const [tx, ty] = [special('threadIdx.x'), special('threadIdx.y')];
  const { source, waits, sites } = renderJs({
    name: 'sums',
    params: [y!],
    arrays: [s],
    body: block([
      store(arrayNode(s), intrinsic('warpSum', [load(bufferParam(y!), [tx])], f32), [ty, tx]),
      barrier(),
      store(bufferParam(y!), load(arrayNode(s), [tx, ty]), [special('laneId')]),
    ]),
  });
  assert.equal(waits, true);
  assert.deepEqual(
    sites.map((site) => site.intrinsic),
    [undefined, 'warpSum', undefined, 'barrier', undefined, undefined, undefined],
  );
  assert.equal(
    source,
    `// sums(y: buffer(f32))
const y$ = args[0], y = y$.data;
const s$ = shared[0], s = s$.data;
return function* (threadIdx_x, threadIdx_y, threadIdx_z, blockIdx_x, blockIdx_y, blockIdx_z) {
  let steps = 0;
  const laneId = run.thread & 31;
  const value = yield [1, y[y$.read(threadIdx_x, 2)]];
  s[s$.write(s$.dim(threadIdx_y, 0, 0) * 8 + s$.dim(threadIdx_x, 1, 0), 0)] = value;
  yield [3];
  const value_1 = s[s$.read(s$.dim(threadIdx_x, 0, 5) * 8 + s$.dim(threadIdx_y, 1, 5), 5)];
  y[y$.write(laneId, 4)] = value_1;
  return 6;
};
`,
  );
});
