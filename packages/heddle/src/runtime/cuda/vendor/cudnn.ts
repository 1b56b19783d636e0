/** cuDNN's functions, and the descriptors of tensors. Declarations after cudnn.h of version 9. */

import { loadLibrary } from '../driver/native.js';
import type { Options } from './library-options.js';
import { type Checked, created, findVendorLibrary, openVendorLibrary, perDevice } from './vendor-library.js';

/** handle, alpha, three operands' descriptors and memory around the convolution's, see cudnn-convolution.ts */
const CONVOLUTION = [
  ...(['address', 'memory', 'address', 'address', 'address', 'address', 'address', 'i32'] as const),
  ...(['address', 'u64', 'memory', 'address', 'address'] as const),
] as const;
const CONVOLUTION_ALGORITHMS = [
  ...(['address', 'address', 'address', 'address', 'address', 'i32', 'memory', 'memory'] as const),
] as const;
const CONVOLUTION_WORKSPACE = [
  ...(['address', 'address', 'address', 'address', 'address', 'i32', 'memory'] as const),
] as const;
/** handle, descriptor, alpha, x and its descriptor, beta, y and its descriptor */
const FORWARD = [
  ...(['address', 'address', 'memory', 'address', 'address', 'memory', 'address', 'address'] as const),
] as const;
/** handle, descriptor, alpha, y, dy, x, beta, dx, each tensor after its descriptor */
const BACKWARD = [
  ...(['address', 'address', 'memory', 'address', 'address', 'address', 'address'] as const),
  ...(['address', 'address', 'memory', 'address', 'address'] as const),
] as const;

const SIGNATURES = {
  cudnnCreate: ['memory'],
  cudnnSetStream: ['address', 'address'],
  cudnnCreateTensorDescriptor: ['memory'],
  cudnnDestroyTensorDescriptor: ['address'],
  cudnnSetTensor4dDescriptor: ['address', 'i32', 'i32', 'i32', 'i32', 'i32', 'i32'],
  cudnnCreateFilterDescriptor: ['memory'],
  cudnnDestroyFilterDescriptor: ['address'],
  cudnnSetFilter4dDescriptor: ['address', 'i32', 'i32', 'i32', 'i32', 'i32', 'i32'],
  cudnnCreateConvolutionDescriptor: ['memory'],
  cudnnDestroyConvolutionDescriptor: ['address'],
  cudnnSetConvolution2dDescriptor: ['address', 'i32', 'i32', 'i32', 'i32', 'i32', 'i32', 'i32', 'i32'],
  cudnnSetConvolutionGroupCount: ['address', 'i32'],
  cudnnSetConvolutionMathType: ['address', 'i32'],
  cudnnGetConvolutionForwardAlgorithm_v7: CONVOLUTION_ALGORITHMS,
  cudnnGetConvolutionBackwardDataAlgorithm_v7: CONVOLUTION_ALGORITHMS,
  cudnnGetConvolutionBackwardFilterAlgorithm_v7: CONVOLUTION_ALGORITHMS,
  cudnnGetConvolutionForwardWorkspaceSize: CONVOLUTION_WORKSPACE,
  cudnnGetConvolutionBackwardDataWorkspaceSize: CONVOLUTION_WORKSPACE,
  cudnnGetConvolutionBackwardFilterWorkspaceSize: CONVOLUTION_WORKSPACE,
  cudnnConvolutionForward: CONVOLUTION,
  cudnnConvolutionBackwardData: CONVOLUTION,
  cudnnConvolutionBackwardFilter: CONVOLUTION,
  cudnnCreatePoolingDescriptor: ['memory'],
  cudnnDestroyPoolingDescriptor: ['address'],
  cudnnSetPooling2dDescriptor: ['address', 'i32', 'i32', 'i32', 'i32', 'i32', 'i32', 'i32', 'i32'],
  cudnnPoolingForward: FORWARD,
  cudnnPoolingBackward: BACKWARD,
  cudnnCreateActivationDescriptor: ['memory'],
  cudnnDestroyActivationDescriptor: ['address'],
  cudnnSetActivationDescriptor: ['address', 'i32', 'i32', 'f64'],
  cudnnActivationForward: FORWARD,
  cudnnActivationBackward: BACKWARD,
  // handle, mode, alpha, beta, x, y (each after its descriptor), descriptor of the channels' values, scale, bias,
  // factor, running mean and variance, epsilon, saved mean and inverse deviation
  cudnnBatchNormalizationForwardTraining: [
    ...(['address', 'i32', 'memory', 'memory', 'address', 'address', 'address', 'address'] as const),
    ...(['address', 'address', 'address', 'f64', 'address', 'address', 'f64', 'address', 'address'] as const),
  ],
  // handle, mode, alpha and beta of dx and of the parameters, x, dy, dx (each after its descriptor), descriptor of
  // the channels' values, scale, its gradient, that of the bias, epsilon, saved mean and inverse deviation
  cudnnBatchNormalizationBackward: [
    ...(['address', 'i32', 'memory', 'memory', 'memory', 'memory'] as const),
    ...(['address', 'address', 'address', 'address', 'address', 'address'] as const),
    ...(['address', 'address', 'address', 'address', 'f64', 'address', 'address'] as const),
  ],
} as const;

export type Cudnn = Checked<typeof SIGNATURES>;

/** The library with a handle for the current context. */
export interface CudnnHandle {
  readonly lib: Cudnn;
  readonly handle: number;
}

export const openCudnn = perDevice((): CudnnHandle => {
  // It looks for cuBLASLt by its name alone, and in a wheel that is in another folder.
  const cublasLt = findVendorLibrary('cublasLt');
  if (cublasLt) loadLibrary(cublasLt.path);
  const lib = openVendorLibrary('cudnn', SIGNATURES, 'cudnnGetErrorString');
  return { lib, handle: created(lib.cudnnCreate) };
});

/** cudnnDataType_t */
const DATA_TYPES: Readonly<Record<string, number>> = { f32: 0, f64: 1, f16: 2, bf16: 9 };
/** cudnnTensorFormat_t, which is also the order of a filter's dimensions. */
const NCHW = 0;
const LAYOUTS: Readonly<Record<string, number>> = { NCHW, NHWC: 1 };

export const layoutOf = (o: Options): number => o.lookup('layout', LAYOUTS);

export const dataType = (o: Options): number => o.lookup('dtype', DATA_TYPES);
/** The type that sums are made in. */
export const computeType = (o: Options): number => (o.text('dtype') === 'f64' ? 1 : 0);
/** A host scalar: double where the sums are, else float. */
export const hostScalar = (o: Options, value: number): Float32Array | Float64Array =>
  o.text('dtype') === 'f64' ? Float64Array.of(value) : Float32Array.of(value);

export type Extents = readonly [number, number, number, number];

/** Descriptors made for one routine, destroyed together. */
export class Descriptors {
  readonly #lib: Cudnn;
  readonly #destroy: (() => void)[] = [];

  constructor(lib: Cudnn) {
    this.#lib = lib;
  }

  /** A contiguous tensor; its extents come as N, C, H, W in every layout. */
  tensor([n, c, h, w]: Extents, type: number, layout = NCHW): number {
    const made = this.make(this.#lib.cudnnCreateTensorDescriptor, this.#lib.cudnnDestroyTensorDescriptor);
    this.#lib.cudnnSetTensor4dDescriptor(made, layout, type, n, c, h, w);
    return made;
  }

  /** Weights; their extents come as O, C/groups, kH, kW in every layout. */
  filter([o, c, h, w]: Extents, type: number, layout = NCHW): number {
    const made = this.make(this.#lib.cudnnCreateFilterDescriptor, this.#lib.cudnnDestroyFilterDescriptor);
    this.#lib.cudnnSetFilter4dDescriptor(made, type, layout, o, c, h, w);
    return made;
  }

  make(create: (out: BigUint64Array) => void, destroy: (descriptor: number) => void): number {
    const made = created(create);
    this.#destroy.push(() => destroy(made));
    return made;
  }

  dispose(): void {
    for (const destroy of this.#destroy.splice(0)) destroy();
  }
}
