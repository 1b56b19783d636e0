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
export { Conv2d, type Conv2dLayerOptions } from './conv2d.js';
export * as init from './init.js';
export { Linear, type LinearOptions } from './linear.js';
export { type Layer, type LoadStateOptions, Module, type StateDict } from './module.js';
export { AvgPool2d, MaxPool2d } from './pooling.js';
export { BatchNorm2d, type BatchNorm2dOptions, Dropout, type DropoutLayerOptions } from './regularization.js';
