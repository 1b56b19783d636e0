/** The CUDA driver (libcuda): one table of the functions used, every call checked. */
import { DeviceError } from '../../../core/errors.js';
import type { GpuLimits } from '../../../kernel/ir/target.js';
import { type Functions, koffi, NativeMemory, openLibrary, structOfBytes } from './native.js';

/** Argument types as in cuda.h; all return a CUresult. The suffixes are those of CUDA 12's headers. */
const SIGNATURES = {
  cuInit: ['u32'],
  cuDriverGetVersion: ['address'],
  cuGetErrorName: ['i32', 'address'],
  cuGetErrorString: ['i32', 'address'],
  cuDeviceGetCount: ['address'],
  cuDeviceGet: ['address', 'i32'],
  cuDeviceGetName: ['address', 'i32', 'i32'],
  cuDeviceTotalMem_v2: ['address', 'i32'],
  cuDeviceGetPCIBusId: ['address', 'i32', 'i32'],
  cuDeviceGetByPCIBusId: ['address', 'text'],
  cuDeviceCanAccessPeer: ['address', 'i32', 'i32'],
  // value, attribute, from, to
  cuDeviceGetP2PAttribute: ['address', 'i32', 'i32', 'i32'],
  cuDeviceGetAttribute: ['address', 'i32', 'i32'],
  cuDevicePrimaryCtxRetain: ['address', 'i32'],
  cuDevicePrimaryCtxRelease_v2: ['i32'],
  cuCtxSetCurrent: ['address'],
  cuCtxGetDevice: ['address'],
  cuCtxSynchronize: [],
  cuMemGetInfo_v2: ['address', 'address'],
  cuMemAlloc_v2: ['address', 'u64'],
  cuMemFree_v2: ['address'],
  // base, size, address
  cuMemGetAddressRange_v2: ['address', 'address', 'address'],
  cuIpcGetMemHandle: ['address', 'address'],
  cuIpcCloseMemHandle: ['address'],
  cuMemHostAlloc: ['address', 'u64', 'u32'],
  cuMemFreeHost: ['address'],
  cuMemHostRegister_v2: ['address', 'u64', 'u32'],
  cuMemHostUnregister: ['address'],
  cuMemcpyHtoDAsync_v2: ['address', 'address', 'u64', 'address'],
  cuMemcpyDtoHAsync_v2: ['address', 'address', 'u64', 'address'],
  cuMemcpyDtoDAsync_v2: ['address', 'address', 'u64', 'address'],
  cuMemsetD8Async: ['address', 'u32', 'u64', 'address'],
  cuStreamCreate: ['address', 'u32'],
  cuStreamDestroy_v2: ['address'],
  cuStreamSynchronize: ['address'],
  cuStreamWaitEvent: ['address', 'address', 'u32'],
  // stream, address, value, flags
  cuStreamWaitValue32_v2: ['address', 'address', 'u32', 'u32'],
  cuStreamWriteValue32_v2: ['address', 'address', 'u32', 'u32'],
  cuStreamBeginCapture_v2: ['address', 'i32'],
  cuStreamEndCapture: ['address', 'address'],
  cuEventCreate: ['address', 'u32'],
  cuEventDestroy_v2: ['address'],
  cuEventRecord: ['address', 'address'],
  cuEventQuery: ['address'],
  cuEventSynchronize: ['address'],
  cuEventElapsedTime: ['address', 'address', 'address'],
  cuModuleLoadData: ['address', 'memory'],
  cuModuleUnload: ['address'],
  cuModuleGetFunction: ['address', 'address', 'text'],
  cuModuleGetGlobal_v2: ['address', 'address', 'address', 'text'],
  cuFuncGetAttribute: ['address', 'i32', 'address'],
  cuFuncSetAttribute: ['address', 'i32', 'i32'],
  cuOccupancyMaxActiveBlocksPerMultiprocessor: ['address', 'address', 'i32', 'u64'],
  // function, grid x y z, block x y z, shared bytes, stream, parameters, extra
  cuLaunchKernel: [
    'address',
    ...(['u32', 'u32', 'u32'] as const),
    ...(['u32', 'u32', 'u32'] as const),
    'u32',
    'address',
    'address',
    'address',
  ],
  // configuration, function, parameters, extra
  cuLaunchKernelEx: ['address', 'address', 'address', 'address'],
  // map, dtype, rank, address, sizes, strides, box, element strides, interleave, swizzle, L2 promotion, filling
  cuTensorMapEncodeTiled: [
    'address',
    ...(['i32', 'u32', 'address'] as const),
    ...(['address', 'address', 'address', 'address'] as const),
    ...(['i32', 'i32', 'i32', 'i32'] as const),
  ],
  // map, dtype, rank, address, sizes, strides, lower corner, upper corner, channels, pixels, element strides, and as above
  cuTensorMapEncodeIm2col: [
    'address',
    ...(['i32', 'u32', 'address'] as const),
    ...(['address', 'address', 'address', 'address'] as const),
    ...(['u32', 'u32', 'address'] as const),
    ...(['i32', 'i32', 'i32', 'i32'] as const),
  ],
  cuGraphCreate: ['address', 'u32'],
  cuGraphDestroy: ['address'],
  cuGraphAddKernelNode_v2: ['address', 'address', 'address', 'u64', 'address'],
  cuGraphKernelNodeSetAttribute: ['address', 'i32', 'address'],
  cuGraphAddChildGraphNode: ['address', 'address', 'address', 'u64', 'address'],
  cuGraphAddDependencies: ['address', 'address', 'address', 'u64'],
  // graph, from, to, edge data, count
  cuGraphAddDependencies_v2: ['address', 'address', 'address', 'address', 'u64'],
  cuGraphInstantiateWithFlags: ['address', 'address', 'u64'],
  cuGraphExecDestroy: ['address'],
  cuGraphExecKernelNodeSetParams_v2: ['address', 'address', 'address'],
  cuGraphExecChildGraphNodeSetParams: ['address', 'address', 'address'],
  cuGraphLaunch: ['address', 'address'],
  cuGraphUpload: ['address', 'address'],
} as const;

type Name = keyof typeof SIGNATURES;
type Raw = Functions<typeof SIGNATURES>;

/** The same functions, throwing where the status is not success. */
export type DriverApi = { readonly [N in Name]: (...args: Parameters<Raw[N]>) => void };

/** sizeof(CUipcMemHandle) */
export const IPC_HANDLE_BYTES = 64;
/** CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS */
const LAZY_PEER_ACCESS = 1;

export const CUDA_ERROR = {
  outOfMemory: 2,
  notReady: 600,
  deinitialized: 4,
} as const;

/** A driver call that failed. `result` is its CUresult. */
export class DriverError extends DeviceError {
  readonly result: number;
  readonly resultName: string;
  constructor(name: string, result: number, error: string, text: string) {
    super(`${name} failed: ${error} (${result}), ${text}.`);
    this.result = result;
    this.resultName = error;
  }
}

export class Driver {
  /** Throws a DriverError where the status is not success. */
  readonly api: DriverApi;
  /** The statuses, for those that are no errors. */
  readonly raw: Raw;
  /** Such as 13000 for CUDA 13.0. */
  readonly version: number;
  /** Where functions put their results. */
  readonly #out = new NativeMemory(16);
  readonly #path: string;
  #openShared: ((...args: unknown[]) => unknown) | undefined;

  /** @throws Error of the loader if there is no libcuda */
  constructor(path = 'libcuda.so.1') {
    this.#path = path;
    const raw = openLibrary(path, SIGNATURES);
    this.raw = raw;
    const api: Partial<Record<Name, (...args: never[]) => void>> = {};
    for (const name of Object.keys(SIGNATURES) as Name[]) {
      api[name] = (...args: never[]) => {
        const status = (raw[name] as (...args: never[]) => number)(...args);
        if (status !== 0) throw this.error(name, status);
      };
    }
    this.api = api as DriverApi;
    this.version = this.number((at) => this.api.cuDriverGetVersion(at));
    this.api.cuInit(0);
  }

  /** The 32-bit number that `call` puts at the address it is given. */
  number(call: (at: number) => void): number {
    call(this.#out.address);
    return this.#out.i32();
  }

  /** The handle, address or size that `call` puts at the address it is given. */
  handle(call: (at: number) => void): number {
    call(this.#out.address);
    return this.#out.u64();
  }

  /** The f32 that `call` puts at the address it is given. */
  float(call: (at: number) => void): number {
    call(this.#out.address);
    return this.#out.f32();
  }

  /** @param event a CUevent @throws DriverError if what was queued before it failed */
  happened(event: number): boolean {
    const status = this.raw.cuEventQuery(event);
    if (status !== 0 && status !== CUDA_ERROR.notReady) throw this.error('cuEventQuery', status);
    return status === 0;
  }

  attribute(device: number, attribute: number): number {
    return this.number((at) => this.api.cuDeviceGetAttribute(at, attribute, device));
  }

  /**
   * Map memory of another process on this host, whose handle that process has from cuIpcGetMemHandle.
   * @returns its address here
   * @throws DriverError
   */
  openShared(handle: Uint8Array): number {
    this.#openShared ??= koffi()
      .load(this.#path)
      .func('cuIpcOpenMemHandle_v2', 'int', ['uint64_t', structOfBytes(IPC_HANDLE_BYTES), 'unsigned int']);
    return this.handle((at) => {
      const status = this.#openShared!(at, { bytes: handle }, LAZY_PEER_ACCESS) as number;
      if (status !== 0) throw this.error('cuIpcOpenMemHandle', status);
    });
  }

  error(call: string, result: number): DriverError {
    const text = (fn: (result: number, at: number) => number): string => {
      if (fn(result, this.#out.address) !== 0) return '';
      return koffi().decode.string(BigInt(this.#out.u64()));
    };
    const name = text(this.raw.cuGetErrorName) || 'unknown error';
    return new DriverError(call, result, name, text(this.raw.cuGetErrorString) || 'no description');
  }
}

let driver: Driver | undefined;

/** The driver, opened once. @throws Error if there is none, or it finds no GPU */
export function openDriver(): Driver {
  driver ??= new Driver();
  return driver;
}

/** 13000 is CUDA 13.0. */
export const formatVersion = (v: number): string => `${Math.floor(v / 1000)}.${Math.floor((v % 1000) / 10)}`;

/** Numbers of CUdevice_attribute. */
export const ATTRIBUTE = {
  maxSharedPerBlock: 8,
  clockRate: 13,
  multiprocessors: 16,
  l2Bytes: 38,
  maxThreadsPerMultiprocessor: 39,
  capabilityMajor: 75,
  capabilityMinor: 76,
  maxSharedPerMultiprocessor: 81,
  maxRegistersPerMultiprocessor: 82,
  maxSharedPerBlockOptIn: 97,
  maxBlocksPerMultiprocessor: 106,
  reservedSharedPerBlock: 111,
} as const;

/**
 * The limits of a GPU, from its attributes; that of parameters is CUDA's.
 * @param version of CUDA, such as 13000
 */
export const limitsOf = (attribute: (which: number) => number, version: number): GpuLimits => ({
  parameterBytes: version >= 12010 ? 32764 : 4096,
  sharedBytesPerBlock: attribute(ATTRIBUTE.maxSharedPerBlockOptIn),
  sharedBytesPerMultiprocessor: attribute(ATTRIBUTE.maxSharedPerMultiprocessor),
  sharedBytesReserved: attribute(ATTRIBUTE.reservedSharedPerBlock),
  registersPerMultiprocessor: attribute(ATTRIBUTE.maxRegistersPerMultiprocessor),
  threadsPerMultiprocessor: attribute(ATTRIBUTE.maxThreadsPerMultiprocessor),
  blocksPerMultiprocessor: attribute(ATTRIBUTE.maxBlocksPerMultiprocessor),
  cacheBytes: attribute(ATTRIBUTE.l2Bytes),
});

/** Numbers of CUfunction_attribute. */
export const FUNCTION_ATTRIBUTE = {
  maxThreadsPerBlock: 0,
  sharedBytes: 1,
  constantBytes: 2,
  localBytes: 3,
  registers: 4,
  maxDynamicSharedBytes: 8,
} as const;
