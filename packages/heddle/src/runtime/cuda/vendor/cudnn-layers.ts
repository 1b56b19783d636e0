/** cuDNN: pooling, batch normalisation and activation, forward and backward (D1): yardsticks of our own kernels. */
import type { LibraryCall } from '../../../kernel/ir/library-call.js';
import {
  type CudnnHandle,
  computeType,
  Descriptors,
  dataType,
  type Extents,
  hostScalar,
  openCudnn,
} from './cudnn.js';
import { type Options, optionsOf } from './library-options.js';
import type { LibraryContext, PreparedRoutine } from './routine.js';

type Enqueue = (args: readonly number[]) => void;
type Make = (cudnn: CudnnHandle, o: Options, descriptors: Descriptors) => Enqueue;

const PROPAGATE_NAN = 1;
/** The mode that gives the same gradients at every run. */
const POOLING = { max: 3, average: 1 } as const;
const ACTIVATION = { sigmoid: 0, relu: 1, tanh: 2 } as const;
/** Statistics per channel, over images, rows and columns. */
const SPATIAL = 1;

const extents = (o: Options, name: string): Extents => o.numbers(name, 4) as unknown as Extents;

/**
 * `cudnn.pooling`. Options: x, y (shapes), kernel, stride, padding (height, width), mode (max, average), dtype,
 * backward. Arguments: x, y · backward: y, dy, x, dx.
 */
const pooling: Make = ({ lib, handle }, o, descriptors) => {
  const [x, y] = [
    descriptors.tensor(extents(o, 'x'), dataType(o)),
    descriptors.tensor(extents(o, 'y'), dataType(o)),
  ];
  const pool = descriptors.make(lib.cudnnCreatePoolingDescriptor, lib.cudnnDestroyPoolingDescriptor);
  const pair = (name: string): [number, number] => o.numbers(name, 2) as unknown as [number, number];
  lib.cudnnSetPooling2dDescriptor(
    ...([pool, o.lookup('mode', POOLING), PROPAGATE_NAN] as const),
    ...([...pair('kernel'), ...pair('padding'), ...pair('stride')] as const),
  );
  const [one, zero] = [hostScalar(o, 1), hostScalar(o, 0)];
  if (!o.flag('backward'))
    return ([from, to]) => lib.cudnnPoolingForward(handle, pool, one, x, from!, zero, y, to!);
  return ([value, g, from, to]) =>
    lib.cudnnPoolingBackward(handle, pool, one, y, value!, y, g!, x, from!, zero, x, to!);
};

/**
 * `cudnn.activation`. Options: x (shape), mode (relu, sigmoid, tanh), dtype, backward.
 * Arguments: x, y · backward: y, dy, x, dx.
 */
const activation: Make = ({ lib, handle }, o, descriptors) => {
  const x = descriptors.tensor(extents(o, 'x'), dataType(o));
  const kind = descriptors.make(lib.cudnnCreateActivationDescriptor, lib.cudnnDestroyActivationDescriptor);
  lib.cudnnSetActivationDescriptor(kind, o.lookup('mode', ACTIVATION), PROPAGATE_NAN, 0);
  const [one, zero] = [hostScalar(o, 1), hostScalar(o, 0)];
  if (!o.flag('backward'))
    return ([from, to]) => lib.cudnnActivationForward(handle, kind, one, x, from!, zero, x, to!);
  return ([value, g, from, to]) =>
    lib.cudnnActivationBackward(handle, kind, one, x, value!, x, g!, x, from!, zero, x, to!);
};

/**
 * `cudnn.batchNorm` in training. Options: x (shape), momentum, epsilon, dtype, backward. Arguments: x, scale, bias,
 * y, running mean, running variance, saved mean, saved inverse deviation · backward: x, dy, scale, dx, gradients of
 * scale and bias, saved mean, saved inverse deviation.
 */
const batchNorm: Make = ({ lib, handle }, o, descriptors) => {
  const shape = extents(o, 'x');
  const x = descriptors.tensor(shape, dataType(o));
  const channels = descriptors.tensor([1, shape[1], 1, 1], computeType(o));
  const [one, zero] = [hostScalar(o, 1), hostScalar(o, 0)];
  const epsilon = o.number('epsilon');
  if (o.flag('backward')) {
    return ([from, g, scale, to, dScale, dBias, mean, inverse]) =>
      lib.cudnnBatchNormalizationBackward(
        ...([handle, SPATIAL, one, zero, one, zero, x, from!, x, g!, x, to!] as const),
        ...([channels, scale!, dScale!, dBias!, epsilon, mean!, inverse!] as const),
      );
  }
  const momentum = o.number('momentum');
  return ([from, scale, bias, to, runningMean, runningVariance, mean, inverse]) =>
    lib.cudnnBatchNormalizationForwardTraining(
      ...([handle, SPATIAL, one, zero, x, from!, x, to!, channels, scale!, bias!] as const),
      ...([momentum, runningMean!, runningVariance!, epsilon, mean!, inverse!] as const),
    );
};

export const LAYERS: Readonly<Record<string, Make>> = {
  'cudnn.pooling': pooling,
  'cudnn.activation': activation,
  'cudnn.batchNorm': batchNorm,
};

export function prepareLayer(call: LibraryCall, context: LibraryContext): PreparedRoutine {
  const cudnn = openCudnn(context);
  const descriptors = new Descriptors(cudnn.lib);
  try {
    const enqueue = LAYERS[call.name]!(cudnn, optionsOf(call), descriptors);
    return {
      workspaceBytes: 0,
      enqueue(stream, args) {
        cudnn.lib.cudnnSetStream(cudnn.handle, stream);
        enqueue(args as readonly number[]);
      },
      dispose: () => descriptors.dispose(),
    };
  } catch (error) {
    descriptors.dispose();
    throw error;
  }
}
