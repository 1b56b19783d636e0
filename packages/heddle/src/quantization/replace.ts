/** Layers of a model that compute something else for a while. */
import type { Module } from '../nn/module.js';
import type { Tensor } from '../tensor/tensor.js';

/** What a layer computes of its one input. */
export type Forward = (x: Tensor) => Tensor;

/** Run `body` while these modules compute something else; each then has the `forward` that it had. */
export function withForwards<T>(forwards: Iterable<readonly [Module, Forward]>, body: () => T): T {
  const before: (readonly [Module, PropertyDescriptor | undefined])[] = [];
  try {
    for (const [module, forward] of forwards) {
      before.push([module, Object.getOwnPropertyDescriptor(module, 'forward')]);
      Object.defineProperty(module, 'forward', { value: forward, configurable: true, writable: true });
    }
    return body();
  } finally {
    for (const [module, own] of before.reverse()) {
      if (own) Object.defineProperty(module, 'forward', own);
      else Reflect.deleteProperty(module, 'forward');
    }
  }
}
