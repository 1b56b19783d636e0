/** cuBLASLt: matrix products (B1). Declarations after cublasLt.h of CUDA 12 and 13. */
import { DeviceError } from '../../../core/errors.js';
import type { LibraryCall } from '../../../kernel/ir/library-call.js';
import { optionsOf } from './library-options.js';
import type { LibraryContext, PreparedRoutine } from './routine.js';
import { created, openVendorLibrary, perDevice } from './vendor-library.js';

const SIGNATURES = {
  cublasLtCreate: ['memory'],
  cublasLtMatmulDescCreate: ['memory', 'i32', 'i32'],
  cublasLtMatmulDescDestroy: ['address'],
  cublasLtMatmulDescSetAttribute: ['address', 'i32', 'memory', 'u64'],
  cublasLtMatrixLayoutCreate: ['memory', 'i32', 'u64', 'u64', 'u64'],
  cublasLtMatrixLayoutDestroy: ['address'],
  cublasLtMatrixLayoutSetAttribute: ['address', 'i32', 'memory', 'u64'],
  cublasLtMatmulPreferenceCreate: ['memory'],
  cublasLtMatmulPreferenceDestroy: ['address'],
  cublasLtMatmulPreferenceSetAttribute: ['address', 'i32', 'memory', 'u64'],
  // handle, operation, layouts of A B C D, preference, how many, results, how many found
  cublasLtMatmulAlgoGetHeuristic: [
    ...(['address', 'address', 'address', 'address', 'address', 'address', 'address'] as const),
    ...(['i32', 'memory', 'memory'] as const),
  ],
  // handle, operation, alpha, A, its layout, B, its layout, beta, C, its layout, D, its layout, algorithm, workspace,
  // its bytes, stream
  cublasLtMatmul: [
    ...(['address', 'address', 'memory', 'address', 'address', 'address', 'address', 'memory'] as const),
    ...(['address', 'address', 'address', 'address', 'memory', 'address', 'u64', 'address'] as const),
  ],
} as const;

const TRANSPOSE_A = 3;
const TRANSPOSE_B = 4;
const EPILOGUE = 7;
const BIAS_POINTER = 8;
const BATCH_COUNT = 5;
const BATCH_STRIDE = 6;
const MAX_WORKSPACE = 1;
const ALIGNMENT_A = 5;
const ALIGNMENT_B = 6;

/** cudaDataType_t */
const DATA_TYPES: Readonly<Record<string, number>> = { f32: 0, f64: 1, f16: 2, bf16: 14 };
/** cublasComputeType_t: how f32 operands are multiplied. */
const COMPUTE: Readonly<Record<string, number>> = { f32: 68, bf16: 75, tf32: 77 };
const COMPUTE_F64 = 70;
/** cublasLtEpilogue_t: bits. */
const EPILOGUES = { none: 1, relu: 2, bias: 4 } as const;

/** What NVIDIA recommends for Hopper; smaller GPUs take what they need of it. */
const WORKSPACE = 32 << 20;
/** cublasLtMatmulHeuristicResult_t: the algorithm (64 bytes), size_t workspace, int status, 5 words. */
const RESULT_BYTES = 96;

/** The library with a handle. */
const cublasLt = perDevice(() => {
  const lib = openVendorLibrary('cublasLt', SIGNATURES, 'cublasLtGetStatusString');
  return { lib, handle: created(lib.cublasLtCreate) };
});

/** The largest power of two that divides an offset; memory itself is aligned to 64 bytes. */
const alignment = (offset: number): number => {
  let bytes = 64;
  while (offset % bytes !== 0) bytes /= 2;
  return bytes;
};

/**
 * `cublaslt.matmul`: a (batches, M, K) × b (batches, K, N) → y (batches, M, N), y contiguous. Arguments: a, b, y.
 * Options: batches, M, N, K · dtype · precision (of f32) · for a and b [transposed, leading dimension, batch stride,
 * offset], in elements · bias: yes adds a vector (N), the last argument, to every row, relu: yes then makes negative
 * values 0 · rank: which of the library's proposals to take, 0 being its first.
 *
 * The library counts by columns: a row-major matrix is its transpose there, so it is asked for yᵀ = bᵀ·aᵀ.
 */
export function prepareMatmul(call: LibraryCall, context: LibraryContext): PreparedRoutine {
  const { lib, handle } = cublasLt(context);
  const o = optionsOf(call);
  const [M, N, K, batches] = [o.number('M'), o.number('N'), o.number('K'), o.number('batches')];
  const dtype = o.text('dtype');
  const type = o.lookup('dtype', DATA_TYPES);
  const bytes = { f32: 4, f64: 8, f16: 2, bf16: 2 }[dtype]!;
  const double = dtype === 'f64';
  const compute = double ? COMPUTE_F64 : dtype === 'f32' ? o.lookup('precision', COMPUTE) : COMPUTE.f32!;

  const layouts: number[] = [];
  const layout = (rows: number, columns: number, leading: number, stride: number): number => {
    const made = created((out) => lib.cublasLtMatrixLayoutCreate(out, type, rows, columns, leading));
    layouts.push(made);
    if (batches > 1) {
      lib.cublasLtMatrixLayoutSetAttribute(made, BATCH_COUNT, Int32Array.of(batches), 4);
      lib.cublasLtMatrixLayoutSetAttribute(made, BATCH_STRIDE, BigInt64Array.of(BigInt(stride)), 8);
    }
    return made;
  };
  const operand = (name: 'a' | 'b', rows: number, columns: number) => {
    const [transposed, leading, stride, offset] = o.numbers(name, 4) as [number, number, number, number];
    const own = transposed ? layout(rows, columns, leading, stride) : layout(columns, rows, leading, stride);
    return { transposed, layout: own, bytes: offset * bytes };
  };

  const description = created((out) => lib.cublasLtMatmulDescCreate(out, compute, double ? 1 : 0));
  const preference = created(lib.cublasLtMatmulPreferenceCreate);
  const destroy = (): void => {
    for (const l of layouts) lib.cublasLtMatrixLayoutDestroy(l);
    lib.cublasLtMatmulDescDestroy(description);
  };
  try {
    const a = operand('a', M, K);
    const b = operand('b', K, N);
    const y = layout(N, M, N, M * N);
    lib.cublasLtMatmulDescSetAttribute(description, TRANSPOSE_A, Int32Array.of(b.transposed), 4);
    lib.cublasLtMatmulDescSetAttribute(description, TRANSPOSE_B, Int32Array.of(a.transposed), 4);
    const [bias, relu] = [o.flag('bias'), o.flag('relu')];
    const epilogue = (relu ? EPILOGUES.relu : 0) | (bias ? EPILOGUES.bias : 0) || EPILOGUES.none;
    lib.cublasLtMatmulDescSetAttribute(description, EPILOGUE, Int32Array.of(epilogue), 4);
    const prefer = (attribute: number, value: Uint32Array | BigUint64Array): void =>
      lib.cublasLtMatmulPreferenceSetAttribute(preference, attribute, value, value.byteLength);
    prefer(MAX_WORKSPACE, BigUint64Array.of(BigInt(WORKSPACE)));
    prefer(ALIGNMENT_A, Uint32Array.of(alignment(b.bytes)));
    prefer(ALIGNMENT_B, Uint32Array.of(alignment(a.bytes)));
    for (const both of [ALIGNMENT_B + 1, ALIGNMENT_B + 2]) prefer(both, Uint32Array.of(alignment(0)));

    const rank = o.number('rank');
    const results = Buffer.alloc(RESULT_BYTES * (rank + 1));
    const found = new Int32Array(1);
    lib.cublasLtMatmulAlgoGetHeuristic(
      ...([handle, description, b.layout, a.layout, y, y, preference, rank + 1, results, found] as const),
    );
    if (found[0]! <= rank) {
      throw new DeviceError(
        `[cublaslt.matmul] ${batches} × ${M}×${K}×${N} in ${dtype}: the library proposes ${found[0]} ways, asked for number ${rank}.`,
      );
    }
    const chosen = results.subarray(RESULT_BYTES * rank);
    const algorithm = Buffer.from(chosen.subarray(0, 64));
    const workspaceBytes = Number(chosen.readBigUInt64LE(64));
    const one = double ? Float64Array.of(1) : Float32Array.of(1);
    const zero = double ? Float64Array.of(0) : Float32Array.of(0);
    return {
      workspaceBytes,
      enqueue(stream, args, workspace) {
        const [x, w, out, added] = args as readonly [number, number, number, number];
        if (bias)
          lib.cublasLtMatmulDescSetAttribute(description, BIAS_POINTER, BigUint64Array.of(BigInt(added)), 8);
        lib.cublasLtMatmul(
          ...([handle, description, one, w + b.bytes, b.layout, x + a.bytes, a.layout] as const),
          ...([zero, out, y, out, y, algorithm] as const),
          ...([workspace, workspaceBytes, stream] as const),
        );
      },
      dispose: destroy,
    };
  } catch (error) {
    destroy();
    throw error;
  } finally {
    lib.cublasLtMatmulPreferenceDestroy(preference);
  }
}
