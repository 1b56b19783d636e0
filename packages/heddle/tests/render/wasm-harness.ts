/** Runs a kernel on the CPU device on plain values. */
import { type DType, type TypedArray, viewAs } from '../../src/core/dtype.js';
import { fromBf16, fromF16, toBf16, toF16 } from '../../src/core/float16.js';
import type { KernelIr, Param } from '../../src/kernel/ir/ir.js';
import type { Scalar } from '../../src/kernel/ir/ops.js';
import { isBuffer } from '../../src/kernel/ir/types.js';
import type { CpuDevice } from '../../src/runtime/cpu/device.js';
import type { DeviceBuffer, Dim3, ProgramArgument } from '../../src/runtime/device.js';

const encode = (t: DType, v: Scalar): number | bigint =>
  t.name === 'f16'
    ? toF16(v as number)
    : t.name === 'bf16'
      ? toBf16(v as number)
      : typeof v === 'boolean'
        ? Number(v)
        : v;

const decode = (t: DType, v: number | bigint): Scalar =>
  t.name === 'f16'
    ? fromF16(v as number)
    : t.name === 'bf16'
      ? fromBf16(v as number)
      : t.name === 'bool'
        ? v !== 0
        : v;

export function bytesOf(t: DType, values: readonly Scalar[]): Uint8Array {
  const bytes = new Uint8Array(values.length * t.bytes);
  const view: TypedArray = viewAs(t, bytes.buffer, 0, values.length);
  values.forEach((v, i) => {
    view[i] = encode(t, v) as never;
  });
  return bytes;
}

export function valuesOf(t: DType, bytes: Uint8Array): Scalar[] {
  const view = viewAs(t, bytes.buffer, bytes.byteOffset, bytes.byteLength / t.bytes);
  return Array.from(view as ArrayLike<number | bigint>, (v) => decode(t, v));
}

/** What a kernel leaves in its buffers. `args` are in the order of its parameters: arrays for buffers. */
export async function runKernel(
  device: CpuDevice,
  ir: KernelIr,
  grid: Dim3,
  args: readonly (readonly Scalar[] | Scalar)[],
  options: { readonly block?: Dim3; readonly sharedBytes?: number } = {},
): Promise<Scalar[][]> {
  const slots: DeviceBuffer[] = [];
  const dtypes: DType[] = [];
  const launchArgs = ir.params.map((p: Param, i): ProgramArgument => {
    const arg = args[i]!;
    if (!isBuffer(p.schema)) return { value: arg as Scalar };
    const bytes = bytesOf(p.schema.dtype, arg as readonly Scalar[]);
    const buffer = device.allocate(bytes.length, p.name);
    device.write(buffer, bytes);
    dtypes.push(p.schema.dtype);
    return { slot: slots.push(buffer) - 1, offset: 0 };
  });
  const program = device.compile([
    {
      kernel: ir,
      grid,
      block: options.block ?? [1, 1, 1],
      args: launchArgs,
      ...(options.sharedBytes ? { sharedBytes: options.sharedBytes } : {}),
    },
  ]);
  try {
    program.run(slots);
    return await Promise.all(slots.map(async (s, i) => valuesOf(dtypes[i]!, await device.read(s))));
  } finally {
    program.dispose();
    for (const s of slots) device.free(s);
  }
}
