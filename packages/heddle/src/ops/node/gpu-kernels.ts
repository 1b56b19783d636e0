/** The kernels of ops that only a GPU runs, and the simulator for it. A browser has none: see ops/browser/gpu-kernels.ts. */
export {
  attentionChoice,
  keyGradientChoice,
  logSumExpChoice,
  queryGradientChoice,
  valueGradientChoice,
} from '../attention/choose-cuda.js';
export { reorderedBy } from '../conv2d/channels-last.js';
export { convolveChoice, weightChoice } from '../conv2d/choose-cuda.js';
export { indexAddChoice } from '../index-add/choose-cuda.js';
export { matmulBytesChoice } from '../integers/cuda.js';
export { alignedProduct, unalignedSources } from '../matmul/aligned.js';
export { matmulChoice, matmulOfHalvesChoice } from '../matmul/choose-cuda.js';
export { productInParts } from '../matmul/in-parts.js';
export {
  maxPoolChoice,
  maxPoolGradientChoice,
  maxPoolPositionsChoice,
  poolingLast,
} from '../max-pool2d/choose-cuda.js';
export { windowsToPositions } from '../max-pool2d/spread-positions.js';
export { selectedOfRounded } from '../quantize/selected.js';
export { backwardChoice, forwardChoice } from '../recurrent/choose-cuda.js';
export { scanChoice } from '../scan/choose-cuda.js';
export { lastAtChoice, scatterAddChoice } from '../scatter/choose-cuda.js';
export { argsortChoice } from '../sort/choose-cuda.js';
