/** Graphs with a call that can be computed in several ways, by any of them in the simulator, beside the same graph in f64. */
import assert from 'node:assert/strict';
import { type DType, f16, f64, isHalf } from '../../src/core/dtype.js';
import { fromBf16, fromF16 } from '../../src/core/float16.js';
import { CompiledGraph } from '../../src/engine/program.js';
import type { GraphNode } from '../../src/graph/node.js';
import type { Device } from '../../src/runtime/device.js';
import { openDevice } from '../../src/runtime/registry.js';
import type { Tune } from '../../src/schedule/passes/tuning.js';
import { stored, values } from './convolution-check.js';

export interface Built {
  readonly leaves: readonly GraphNode[];
  readonly roots: readonly GraphNode[];
}

async function computed(
  device: Device,
  { leaves, roots }: Built,
  given: readonly Float32Array[],
  options: { readonly kernels?: boolean; readonly tune?: Tune },
): Promise<Float64Array[]> {
  const buffers = leaves.map(({ dtype }, i) => {
    const held = dtype === f64 ? Float64Array.from(given[i]!) : stored(given[i]!, dtype);
    const buffer = device.allocate(held.byteLength, 'test');
    device.write(buffer, new Uint8Array(held.buffer));
    return buffer;
  });
  const compiled = new CompiledGraph(roots, leaves.length, device, options);
  try {
    const results = compiled.run(buffers, 'test', false);
    const read = compiled.schedule.roots.map(async (place, i) => {
      const { dtype, size } = roots[i]!;
      const held = 'result' in place ? results[place.result]!.buffer : buffers[place.leaf]!;
      const { buffer } = await device.read(held, 0, dtype.bytes * size);
      if (dtype === f64) return new Float64Array(buffer, 0, size);
      if (!isHalf(dtype)) return Float64Array.from(new Float32Array(buffer, 0, size));
      return Float64Array.from(new Uint16Array(buffer, 0, size), dtype === f16 ? fromF16 : fromBf16);
    });
    const values = await Promise.all(read);
    for (const result of results) result.release();
    return values;
  } finally {
    compiled.dispose();
    for (const buffer of buffers) device.free(buffer);
  }
}

/**
 * @param build the graph on leaves of a dtype
 * @param pick which of the variants of each call
 * @param terms that a sum has, of numbers that all arithmetics represent: each rounds by 2⁻²⁴ at most
 */
export async function requireAnyVariant(
  build: (dtype: DType) => Built,
  dtype: DType,
  { pick, terms }: { readonly pick: number; readonly terms: number },
): Promise<void> {
  const [of, exact] = [build(dtype), build(f64)];
  const given = of.leaves.map((l, i) => values(l.size, i + 1));
  const cpu = openDevice('cpu');
  const composed = (sources: readonly Float32Array[]): Promise<Float64Array[]> =>
    computed(cpu, exact, sources, { kernels: false });
  const expected = await composed(given);
  const totals = await composed(given.map((v) => v.map(Math.abs)));
  let name = 'the guess';
  const tune: Tune = (requests) =>
    requests.map(({ variants }) => {
      ({ name } = variants[pick % variants.length]!);
      return name;
    });
  const actual = await computed(openDevice('sim'), of, given, { tune });
  // Results of 16 bits are rounded after each of three operations, small ones of f16 to multiples of 2⁻²⁴.
  const rounded = isHalf(dtype) ? 3 * 2 ** (dtype === f16 ? -11 : -8) : 0;
  const unit = (terms + 2) * 2 ** -24 + rounded;
  const least = dtype === f16 ? 3 * 2 ** -25 : 0;
  expected.forEach((all, root) => {
    all.forEach((v, i) => {
      const got = actual[root]![i]!;
      if (!(Math.abs(got - v) <= unit * totals[root]![i]! + least))
        assert.fail(`${name}: element ${i} of result ${root} is ${got} instead of ${v}`);
    });
  });
}
