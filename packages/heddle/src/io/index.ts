/** File formats: IDX, safetensors, and writing files atomically. */
export { writeFileAtomic } from './atomic.js';
export { type IdxArray, type IdxElements, parseIdx, readIdx } from './idx.js';
export {
  encodeSafetensors,
  parseSafetensors,
  readSafetensors,
  type SafetensorsFile,
  type StoredMetadata,
  type StoredTensor,
  type StoredTensors,
  writeSafetensors,
} from './safetensors.js';
