/** The case list: every op, on every device. A new op is a row here. */
import type { Case } from './case.js';
import { EINSUM } from './einsum.js';
import { ELEMENTWISE } from './elementwise.js';
import { IMAGES } from './images.js';
import { INDEXING } from './indexing.js';
import { MATMUL } from './matmul.js';
import { MOVEMENT } from './movement.js';
import { PIECES } from './pieces.js';
import { QUANTIZATION } from './quantization.js';
import { REDUCE } from './reduce.js';
import { RESIZING } from './resizing.js';
import { SCATTERING } from './scattering.js';
import { SEQUENCES } from './sequences.js';
import { SORTING } from './sorting.js';
import { WINDOWS } from './windows.js';

export const OPS: readonly Case[] = [
  ...ELEMENTWISE,
  ...REDUCE,
  ...MOVEMENT,
  ...PIECES,
  ...INDEXING,
  ...SORTING,
  ...SCATTERING,
  ...MATMUL,
  ...EINSUM,
  ...IMAGES,
  ...SEQUENCES,
  ...WINDOWS,
  ...QUANTIZATION,
  ...RESIZING,
];
