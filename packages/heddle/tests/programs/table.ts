/** Every op that random programs are made of. A row has its legal arguments, how it is called, and what it should give. */
import { ELEMENTWISE } from './elementwise.js';
import { LAYERS } from './layers.js';
import { LOSSES } from './losses.js';
import { MOVEMENT } from './movement.js';
import type { Op } from './op.js';
import { ORDERS } from './orders.js';
import { REDUCTIONS } from './reductions.js';

export const TABLE: Readonly<Record<string, Op<unknown>>> = {
  ...ELEMENTWISE,
  ...MOVEMENT,
  ...REDUCTIONS,
  ...LAYERS,
  ...LOSSES,
  ...ORDERS,
};

/** How often ops of each kind are chosen. */
export const KINDS: readonly (readonly [share: number, names: readonly string[]])[] = [
  [5, Object.keys(ELEMENTWISE)],
  [5, Object.keys(MOVEMENT)],
  [5, Object.keys(REDUCTIONS)],
  [3, Object.keys(LAYERS)],
  [1, Object.keys(LOSSES)],
  [2, Object.keys(ORDERS)],
  // What has kernels written by hand, and what is easily wrong right after one
  [5, ['matmul', 'linear', 'conv2d', 'maxPool2d', 'softmax', 'logSoftmax', 'crossEntropy']],
  [2, ['cast', 'add', 'mul', 'argmax', 'max']],
];
