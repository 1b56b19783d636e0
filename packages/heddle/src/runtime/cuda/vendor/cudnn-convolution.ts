/** cuDNN: convolution and its two gradients (D1), by the algorithms its heuristics propose. */
import { DeviceError } from '../../../core/errors.js';
import type { LibraryCall } from '../../../kernel/ir/library-call.js';
import {
  type Cudnn,
  computeType,
  Descriptors,
  dataType,
  type Extents,
  hostScalar,
  layoutOf,
  openCudnn,
} from './cudnn.js';
import { optionsOf } from './library-options.js';
import type { LibraryContext, PreparedRoutine } from './routine.js';

/**
 * In all three the operands come in one pattern: two that are read and one that is written. `order` takes them from
 * the routine's arguments, which are those of the op: (x, w, y), (dy, w, dx), (x, dy, dw). `sums` are the algorithms
 * that add up products and transform nothing.
 */
const DIRECTIONS = {
  forward: {
    order: [0, 1],
    operands: ['x', 'w', 'y'],
    algorithms: 'cudnnGetConvolutionForwardAlgorithm_v7',
    workspace: 'cudnnGetConvolutionForwardWorkspaceSize',
    run: 'cudnnConvolutionForward',
    sums: [0, 1, 2, 3],
  },
  input: {
    order: [1, 0],
    operands: ['w', 'y', 'x'],
    algorithms: 'cudnnGetConvolutionBackwardDataAlgorithm_v7',
    workspace: 'cudnnGetConvolutionBackwardDataWorkspaceSize',
    run: 'cudnnConvolutionBackwardData',
    sums: [0, 1],
  },
  weight: {
    order: [0, 1],
    operands: ['x', 'y', 'w'],
    algorithms: 'cudnnGetConvolutionBackwardFilterAlgorithm_v7',
    workspace: 'cudnnGetConvolutionBackwardFilterWorkspaceSize',
    run: 'cudnnConvolutionBackwardFilter',
    sums: [0, 1, 3],
  },
} as const satisfies Record<
  string,
  {
    order: readonly [number, number];
    operands: readonly ['x' | 'w' | 'y', 'x' | 'w' | 'y', 'x' | 'w' | 'y'];
    algorithms: keyof Cudnn;
    workspace: keyof Cudnn;
    run: keyof Cudnn;
    sums: readonly number[];
  }
>;

const CROSS_CORRELATION = 1;
/** cudnnMathType_t. Plain f32 must be asked for: the default may round operands to TF32. */
const MATH = { default: 0, tensorOps: 1, fma: 3 } as const;
const DETERMINISTIC = 1;
/** cudnnConvolution…AlgoPerf_t: int algorithm, int status, float time, size_t memory, int determinism, int math. */
const PERF = { bytes: 48, algorithm: 0, status: 4, determinism: 24, math: 28 } as const;
const MOST_ALGORITHMS = 10;

/**
 * `cudnn.convolution`. Options: direction (forward, input, weight) · x, w, y: extents (NCHW, OCHW, NCHW) · layout of all
 * three in memory (NCHW, NHWC) · stride,
 * padding, dilation (height, width) · groups · dtype · precision (of f32: f32 or tf32) · rank: which of the proposed
 * algorithms to take, 0 being the first · any: count those that give other bits at every run, too, and those that
 * transform their operands (FFT, Winograd), whose results are further off than another order of sums can make them.
 */
export function prepareConvolution(call: LibraryCall, context: LibraryContext): PreparedRoutine {
  const { lib, handle } = openCudnn(context);
  const o = optionsOf(call);
  const {
    order,
    operands,
    algorithms,
    workspace: sizeOf,
    run,
    sums,
  } = o.lookup<(typeof DIRECTIONS)[keyof typeof DIRECTIONS]>('direction', DIRECTIONS);
  const descriptors = new Descriptors(lib);
  try {
    const type = dataType(o);
    const layout = layoutOf(o);
    const extents = (name: string): Extents => o.numbers(name, 4) as unknown as Extents;
    const made = {
      x: descriptors.tensor(extents('x'), type, layout),
      w: descriptors.filter(extents('w'), type, layout),
      y: descriptors.tensor(extents('y'), type, layout),
    };
    const [first, second, result] = operands.map((name) => made[name]) as [number, number, number];
    const convolution = descriptors.make(
      lib.cudnnCreateConvolutionDescriptor,
      lib.cudnnDestroyConvolutionDescriptor,
    );
    const pair = (name: string): [number, number] => o.numbers(name, 2) as unknown as [number, number];
    lib.cudnnSetConvolution2dDescriptor(
      ...([convolution, ...pair('padding'), ...pair('stride'), ...pair('dilation')] as const),
      ...([CROSS_CORRELATION, computeType(o)] as const),
    );
    lib.cudnnSetConvolutionGroupCount(convolution, o.number('groups'));
    const exact = o.text('dtype') === 'f32' && o.text('precision') === 'f32';
    lib.cudnnSetConvolutionMathType(convolution, exact ? MATH.fma : MATH.tensorOps);

    const found = new Int32Array(1);
    const results = new DataView(new ArrayBuffer(PERF.bytes * MOST_ALGORITHMS));
    lib[algorithms](handle, first, second, convolution, result, MOST_ALGORITHMS, found, results);
    const any = o.flag('any');
    const addsUp = new Set<number>(sums);
    const proposals = Array.from({ length: found[0]! }, (_, i) => ({
      algorithm: results.getInt32(i * PERF.bytes + PERF.algorithm, true),
      status: results.getInt32(i * PERF.bytes + PERF.status, true),
      determinism: results.getInt32(i * PERF.bytes + PERF.determinism, true),
      math: results.getInt32(i * PERF.bytes + PERF.math, true),
    })).filter(
      ({ algorithm, status, determinism, math }) =>
        status === 0 &&
        (any || (determinism === DETERMINISTIC && addsUp.has(algorithm))) &&
        (!exact || math === MATH.fma || math === MATH.default),
    );
    const rank = o.number('rank');
    const chosen = proposals[rank];
    if (!chosen) {
      throw new DeviceError(
        `[cudnn.convolution] ${o.text('direction')} of ${extents('x').join('×')} with ${extents('w').join('×')}: the library proposes ${proposals.length} algorithms that will do, asked for number ${rank}.`,
      );
    }
    if (!exact) lib.cudnnSetConvolutionMathType(convolution, chosen.math);
    const bytes = new BigUint64Array(1);
    lib[sizeOf](handle, first, second, convolution, result, chosen.algorithm, bytes);
    const workspaceBytes = Number(bytes[0]);
    const [one, zero] = [hostScalar(o, 1), hostScalar(o, 0)];
    return {
      workspaceBytes,
      enqueue(stream, args, workspace) {
        const at = args as readonly number[];
        lib.cudnnSetStream(handle, stream);
        lib[run](
          ...([handle, one, first, at[order[0]]!, second, at[order[1]]!, convolution] as const),
          ...([chosen.algorithm, workspace, workspaceBytes, zero, result, at[2]!] as const),
        );
      },
      dispose: () => descriptors.dispose(),
    };
  } catch (error) {
    descriptors.dispose();
    throw error;
  }
}
