/** The table of the vendor libraries' routines. */
import { prepareCopies } from '../peers/copies.js';
import { prepareMatmul } from './cublaslt.js';
import { prepareConvolution } from './cudnn-convolution.js';
import { LAYERS, prepareLayer } from './cudnn-layers.js';
import { prepareRandom } from './curand.js';
import { prepareCollective } from './nccl.js';
import type { Routine } from './routine.js';
import { findVendorLibrary, hasVendorLibrary, type VendorName } from './vendor-library.js';

const routine = (library: VendorName, prepare: Routine['prepare']): Routine => ({
  available: () => hasVendorLibrary(library),
  prepare,
});

/** It takes no kernel's place: there is no other way between GPUs, whatever HEDDLE_VENDOR says. */
const COLLECTIVE: Routine = {
  available: () => findVendorLibrary('nccl') !== undefined,
  prepare: prepareCollective,
};

/** By `LibraryCall.name`. */
export const ROUTINES: Readonly<Record<string, Routine>> = {
  'cublaslt.matmul': routine('cublasLt', prepareMatmul),
  'cudnn.convolution': routine('cudnn', prepareConvolution),
  ...Object.fromEntries(Object.keys(LAYERS).map((name) => [name, routine('cudnn', prepareLayer)])),
  'curand.uniform': routine('curand', prepareRandom),
  'curand.normal': routine('curand', prepareRandom),
  'collective.allReduce': COLLECTIVE,
  'collective.broadcast': COLLECTIVE,
  'collective.allGather': COLLECTIVE,
  'collective.reduceScatter': COLLECTIVE,
  'collective.gatherOthers': { ...COLLECTIVE, prepare: prepareCopies },
};
