/** Constants: those that are small stay on the host, where shapes are computed of them. */
import { type DType, full, type Shape } from 'heddle';
import { sizeOf } from 'heddle/internal/core/shape.js';
import type { ElementType } from '../file/element-types.js';
import type { HostTensor } from '../file/host-tensor.js';
import { type HostValue, hostTensor } from './host-ops.js';
import { Value } from './value.js';

/** The most elements that stay on the host. */
const MOST_ON_HOST = 2 ** 16;

/** The same value everywhere. */
export function constantFill(type: ElementType, shape: Shape, value: HostValue): Value {
  const size = sizeOf(shape);
  if (size <= MOST_ON_HOST || !type.dtype)
    return Value.host(hostTensor(type, shape, new Array<HostValue>(size).fill(value)));
  const given = type.kind === 'bool' ? Number(value) !== 0 : (value as number);
  return Value.of(full(shape as number[], given as number, { dtype: type.dtype as DType<'f32'> }), type);
}

/** A constant as a value. */
export function constantOf(host: HostTensor): Value {
  const value = Value.host(host);
  return value.size <= MOST_ON_HOST || !host.type.dtype ? value : Value.of(value.tensor, host.type);
}
