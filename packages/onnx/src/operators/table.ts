/** All operators, by name; those of other domains than ONNX's own with the domain before it. */
import { ACTIVATIONS } from './activations.js';
import { ATTENTION_OPERATORS } from './attention.js';
import { CONSTANT_OPERATORS } from './constants.js';
import { CONTRIB } from './contrib.js';
import { CONTRIB_ATTENTION } from './contrib-attention.js';
import { CONTRIB_QUANTIZATION } from './contrib-quantization.js';
import { CONTROL_FLOW } from './control-flow.js';
import { CONVOLUTION } from './convolution.js';
import { DEFORMABLE } from './deformable.js';
import { DETECTION } from './detection.js';
import { ELEMENTWISE } from './elementwise.js';
import { INDEXING } from './indexing.js';
import { LOSSES } from './losses.js';
import { MATRICES } from './matrices.js';
import { MOVEMENT } from './movement.js';
import { NORMALIZATION } from './normalization.js';
import type { Operators } from './operator.js';
import { POOLING } from './pooling.js';
import { QUANTIZATION } from './quantization.js';
import { RECURRENT_OPERATORS } from './recurrent.js';
import { REDUCTIONS } from './reductions.js';
import { RESIZE } from './resize.js';
import { SIGNAL } from './signal.js';

export const OPERATORS: Operators = {
  ...ELEMENTWISE,
  ...ACTIVATIONS,
  ...MOVEMENT,
  ...INDEXING,
  ...REDUCTIONS,
  ...CONSTANT_OPERATORS,
  ...MATRICES,
  ...CONVOLUTION,
  ...POOLING,
  ...NORMALIZATION,
  ...RESIZE,
  ...QUANTIZATION,
  ...RECURRENT_OPERATORS,
  ...LOSSES,
  ...ATTENTION_OPERATORS,
  ...DETECTION,
  ...DEFORMABLE,
  ...CONTROL_FLOW,
  ...SIGNAL,
  ...CONTRIB,
  ...CONTRIB_ATTENTION,
  ...CONTRIB_QUANTIZATION,
};
