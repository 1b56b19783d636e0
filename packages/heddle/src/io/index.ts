/** File formats: IDX, safetensors, NumPy's, PyTorch's, and writing files atomically. */
export { writeFileAtomic } from './atomic.js';
export { type IdxArray, type IdxElements, parseIdx, readIdx } from './idx.js';
export { encodeNpy, encodeNpz, parseNpy, parseNpz } from './npy.js';
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
export { type LoadedTensors, loadTensors, type SaveTensorsOptions, saveTensors } from './tensor-files.js';
export { parseTorch } from './torch.js';
