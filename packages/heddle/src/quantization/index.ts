/** `heddle/quantization`: networks that compute in 8-bit integers. */
export {
  type ByteDType,
  type DequantizeOptions,
  dequantizeLinear,
  fakeQuantize,
  type QuantizeOptions,
  quantizeLinear,
  type Scale,
  type ZeroPoint,
} from '../tensor/functional-quantization.js';
