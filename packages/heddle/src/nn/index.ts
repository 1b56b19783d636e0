/** Layers. */
export {
  ELU,
  GELU,
  LeakyReLU,
  LogSoftmax,
  ReLU,
  Sigmoid,
  SiLU,
  Softmax,
  Softplus,
  Tanh,
} from './activation.js';
export { Flatten, Sequential } from './container.js';
export { Conv2d } from './conv2d.js';
export * as init from './init.js';
export { Linear } from './linear.js';
export { Module, type StateDict } from './module.js';
export { AvgPool2d, MaxPool2d } from './pooling.js';
export { BatchNorm2d, Dropout } from './regularization.js';
