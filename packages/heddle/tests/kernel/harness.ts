/** Runs the kernels of a fused op by themselves, in the simulator or on a device, and its composition beside them. */
import assert from 'node:assert/strict';
import { arrayOf, bf16, type DType, f16, f32, type TypedArray } from '../../src/core/dtype.js';
import { fromBf16, fromF16 } from '../../src/core/float16.js';
import { sizeOf, stridesOf } from '../../src/core/shape.js';
import {
  callOf,
  type KernelChoice,
  type KernelIo,
  type KernelStage,
  type Stage,
  type View,
} from '../../src/graph/fused-op.js';
import type { GraphNode } from '../../src/graph/node.js';
import { alu, cast, type Expr, int, splat, vector } from '../../src/kernel/ir/ir.js';
import { irFunction } from '../../src/kernel/ir/ir-function.js';
import { H200, type Target } from '../../src/kernel/ir/target.js';
import { isBuffer } from '../../src/kernel/ir/types.js';
import type { Device, DeviceBuffer, Launch } from '../../src/runtime/device.js';
import { simulate } from '../../src/runtime/sim/launch.js';
import { interpret } from '../cases/reference.js';

export const CPU_LIKE: Target = {
  ...H200,
  name: 'cpu',
  model: 'blocks',
  units: 2,
  fma: false,
  capability: 0,
};

/** A source: its elements in row-major order, laid out in memory as the view says (default: contiguous). */
export interface Source {
  readonly data: TypedArray;
  readonly view?: { readonly strides: readonly number[]; readonly offset: number; readonly length: number };
}

/** Multiplies by 2 and adds the element's place in the output: wrong coordinates give wrong values. */
const marking = (split: readonly number[]) =>
  irFunction(([v, ...at]) => {
    const place = at.reduce((n, c, d) => alu('add', [alu('mul', [n, int(split[d]!)]), c]));
    const { dtype, lanes } = v!.type;
    const whole = cast(dtype, place);
    const steps = Array.from({ length: lanes }, (_, i) => cast(dtype, int(i)) as Expr);
    const spread = lanes === 1 ? whole : alu('add', [splat(whole, lanes), vector(steps)]);
    return alu('add', [alu('add', [v!, v!]), spread]);
  });

export const identity = () => irFunction(([v]) => v!);

/** What a plan is given for `node`. */
export function ioFor(
  node: GraphNode,
  sources: readonly Source[],
  target: Target,
  finish: KernelIo['finish'],
): KernelIo {
  const inputs = node.src.map((s, i): View => {
    const { strides, offset } = sources[i]!.view ?? { strides: stridesOf(s.shape), offset: 0 };
    return { ...s.type, strides, offset };
  });
  const output: View = { ...node.type, strides: stridesOf(node.shape), offset: 0 };
  return { target, node, inputs, output, finish, plain: false };
}

/** A source's memory. */
export function laidOut(shape: readonly number[], { data, view }: Source, dtype: DType = f32): TypedArray {
  if (!view) return data;
  const out = arrayOf(dtype, view.length);
  const strides = stridesOf(shape);
  data.forEach((v: number | bigint, i: number) => {
    let at = view.offset;
    let rest = i;
    strides.forEach((s, d) => {
      at += Math.floor(rest / s) * view.strides[d]!;
      rest %= s;
    });
    out[at] = v;
  });
  return out;
}

export const kernelOf = (node: GraphNode, target = CPU_LIKE): KernelChoice | undefined => {
  const { op, arg } = callOf(node);
  return op.kernels.find((k) => k.when(target, node, arg));
};

function kernelStage(stage: Stage): KernelStage {
  if ('library' in stage) throw new Error(`${stage.library.name} is not a kernel`);
  return stage;
}

/** A kernel may take its elements several at a time, as larger ones. */
function seenAs({ name, bytes }: DType, x: TypedArray): TypedArray {
  return name === 'u32' ? new Uint32Array(x.buffer, x.byteOffset, Math.floor(x.byteLength / bytes)) : x;
}

/** Run stages in the simulator, checking every access; wide ones may lie anywhere on a CPU. */
export function runInSimulator(
  stages: readonly Stage[],
  inputs: readonly TypedArray[],
  output: TypedArray,
  anyAlignment = true,
): void {
  const scratch = new Map<string, TypedArray>();
  for (const { kernel, grid, block, args, sharedBytes = 0 } of stages.map(kernelStage)) {
    const values = kernel.params.map(({ name, schema }, i) => {
      const arg = args[i]!;
      if ('value' in arg) return [name, arg.value] as const;
      if ('output' in arg) return [name, output] as const;
      if ('also' in arg || 'beside' in arg)
        throw new Error('these stages have one result, and no tensor beside it');
      const dtype = isBuffer(schema) ? schema.dtype : schema;
      if ('input' in arg) return [name, seenAs(dtype, inputs[arg.input]!)] as const;
      const known =
        scratch.get(arg.scratch) ?? arrayOf(dtype, arg.bytes / dtype.bytes).fill(Number.NaN as never);
      scratch.set(arg.scratch, known);
      return [name, known] as const;
    });
    simulate(kernel, { grid, block, sharedBytes }, Object.fromEntries(values), { anyAlignment });
  }
}

/** Run stages on a device, each after the one before. */
export async function runOnDevice(
  device: Device,
  stages: readonly Stage[],
  inputs: readonly TypedArray[],
  output: TypedArray,
): Promise<void> {
  const slots: DeviceBuffer[] = [];
  const add = (bytes: number): number => slots.push(device.allocate(Math.max(4, bytes), 'test')) - 1;
  const bytesOf = (data: TypedArray): Uint8Array =>
    new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const sources = inputs.map((data) => add(data.byteLength));
  inputs.forEach((data, i) => {
    device.write(slots[sources[i]!]!, bytesOf(data));
  });
  const result = add(output.byteLength);
  const scratch = new Map<string, number>();
  const launches = stages.map(({ args, ...work }): Launch => {
    const places = args.map((arg) => {
      if ('value' in arg) return arg;
      if ('output' in arg) return { slot: result, offset: 0 };
      if ('also' in arg || 'beside' in arg)
        throw new Error('these stages have one result, and no tensor beside it');
      if ('input' in arg) return { slot: sources[arg.input]!, offset: 0 };
      if (!scratch.has(arg.scratch)) scratch.set(arg.scratch, add(arg.bytes));
      return { slot: scratch.get(arg.scratch)!, offset: 0 };
    });
    return { ...work, args: places };
  });
  const program = device.compile(launches);
  program.run(slots);
  bytesOf(output).set(await device.read(slots[result]!, 0, output.byteLength));
  program.dispose();
  for (const slot of slots) device.free(slot);
}

/** The kernel's values on a device, marked or not, must be `expected`. */
export async function checkOnDevice(
  device: Device,
  node: GraphNode,
  sources: readonly Source[],
  expected: readonly number[],
  tolerance = 1e-5,
): Promise<void> {
  const { op, arg } = callOf(node);
  const choice = kernelOf(node, device.target);
  assert.ok(choice, `${op.name} has no kernel for (${node.shape})`);
  const inputs = node.src.map((s, i) => laidOut(s.shape, sources[i]!, s.dtype));
  for (const marked of choice.finishes ? [true, false] : [false]) {
    const stages = choice.plan(ioFor(node, sources, device.target, marked ? marking : identity), arg);
    const output = arrayOf(node.dtype, sizeOf(node.shape));
    await runOnDevice(device, stages, inputs, output);
    const wanted = expected.map((v, i) => (marked ? 2 * v + i : v));
    assertClose(output as Float32Array, wanted, tolerance, `${op.name} (${node.shape}) on ${device.name}`);
  }
}

/** The kernel's values in all its ways, marked or not, must be the composition's. */
export function checkInSimulator(
  node: GraphNode,
  sources: readonly Source[],
  tolerance = 1e-5,
  target = CPU_LIKE,
): void {
  const { op, arg } = callOf(node);
  const choice = kernelOf(node, target);
  assert.ok(choice, `${op.name} has no kernel for (${node.shape})`);
  const leaves = new Map(node.src.map((s, i) => [s, numbersOf(s.dtype, sources[i]!.data)]));
  const expected = interpret(op.compose(node.src, arg), leaves) as number[];
  const inputs = node.src.map((s, i) => laidOut(s.shape, sources[i]!, s.dtype));
  // Threads are slow to simulate: there a kernel runs once for each of its ways.
  const both = target.model === 'blocks' ? [true, false] : [true];
  for (const marked of choice.finishes ? both : [false]) {
    const io = ioFor(node, sources, target, marked ? marking : identity);
    const ways = choice.variants?.(io, arg) ?? [{ name: choice.name, plan: () => choice.plan(io, arg) }];
    for (const { name, plan } of ways) {
      const output = arrayOf(node.dtype, sizeOf(node.shape)).fill(Number.NaN as never);
      runInSimulator(plan(), inputs, output, target.model === 'blocks');
      const wanted = expected.map((v, i) => (marked ? 2 * v + i : v));
      const what = `${op.name} (${node.shape}) ${name}${marked ? ' marked' : ''}`;
      assertClose(numbersOf(node.dtype, output), wanted, tolerance, what);
    }
  }
}

/** The numbers that elements of memory stand for. */
const numbersOf = (dtype: DType, data: TypedArray): number[] =>
  Array.from(data as Float32Array, (v) => (dtype === bf16 ? fromBf16(v) : dtype === f16 ? fromF16(v) : v));

export function assertClose(
  got: ArrayLike<number>,
  wanted: readonly number[],
  tolerance: number,
  what: string,
): void {
  assert.equal(got.length, wanted.length, `${what}: length`);
  wanted.forEach((w, i) => {
    const g = got[i]!;
    const fits = Object.is(g, w) || g === w || Math.abs(g - w) <= tolerance * Math.max(1, Math.abs(w));
    if (!fits) assert.fail(`${what}: element ${i} is ${g}, not ${w}`);
  });
}

/** `n` values of a fixed pseudo-random sequence in −1 … 1. */
export function noise(n: number, seed = 1): Float32Array {
  let state = seed >>> 0;
  return Float32Array.from({ length: n }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  });
}
