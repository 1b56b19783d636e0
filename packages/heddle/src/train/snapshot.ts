/** Values of tensors copied to the host, to go back to. */
import type { TypedArray } from '../core/dtype.js';
import type { AnyTensor } from '../tensor/tensor.js';

export class Snapshot {
  readonly #values: readonly (readonly [AnyTensor, TypedArray])[];

  private constructor(values: readonly (readonly [AnyTensor, TypedArray])[]) {
    this.#values = values;
  }

  static async of(tensors: Iterable<AnyTensor>): Promise<Snapshot> {
    return new Snapshot(await Promise.all([...tensors].map(async (t) => [t, await t.data()] as const)));
  }

  /** The first parameter that has a value which is NaN or infinite. */
  notFinite(): AnyTensor | undefined {
    return this.#values.find(([t, values]) => t.requiresGrad && !everyFinite(values))?.[0];
  }

  /** Write the values back in place. */
  restore(): void {
    for (const [to, values] of this.#values) to.write(values);
  }
}

/** Whether none of the values is NaN or infinite. */
export const allFinite = async (t: AnyTensor): Promise<boolean> => everyFinite(await t.data());

function everyFinite(values: ArrayLike<number | bigint>): boolean {
  for (let i = 0; i < values.length; i++) if (!Number.isFinite(Number(values[i]))) return false;
  return true;
}
