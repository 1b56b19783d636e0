/** Memory of this rank that the others copy into. */
import { OutOfMemoryError } from '../core/errors.js';
import { leafOf } from '../engine/ownership.js';
import { BufferStorage } from '../engine/storage.js';
import { currentTrace, type Trace } from '../engine/trace.js';
import type { TensorType } from '../graph/node.js';
import type { DeviceBuffer } from '../runtime/device.js';
import type { AnyTensor } from '../tensor/tensor.js';
import { tensorOf } from '../tensor/tracing.js';

/**
 * Shows memory to the other ranks, which do the same at the same time. @param buffer undefined if there is none
 * @returns whether all have shown theirs
 */
export type Show = (buffer: DeviceBuffer | undefined) => boolean;

/** A tensor for each exchange of a traced function, which is there to the end. Functions that exchange alike share them. */
export class Inboxes {
  readonly #show: Show;
  readonly #tensors = new Map<string, AnyTensor | undefined>();
  /** How many each trace has taken. */
  readonly #taken = new WeakMap<Trace, number>();

  constructor(show: Show) {
    this.#show = show;
  }

  /**
   * @param routes of all that travels, the same text on all ranks: their results may have different sizes
   * @returns undefined, on all ranks, where one has no memory, and outside of a trace, where ranks may do different things
   */
  next(type: TensorType, routes: string): AnyTensor | undefined {
    const trace = currentTrace();
    if (!trace) return undefined;
    const turn = this.#taken.get(trace) ?? 0;
    this.#taken.set(trace, turn + 1);
    // All ranks show each other memory for a key that is new, or none does.
    const key = `${turn} ${type.dtype.name} ${routes}`;
    if (!this.#tensors.has(key)) this.#tensors.set(key, this.#made(type));
    return this.#tensors.get(key);
  }

  dispose(): void {
    for (const tensor of this.#tensors.values()) tensor?.dispose();
    this.#tensors.clear();
  }

  #made(type: TensorType): AnyTensor | undefined {
    const bytes = type.shape.reduce((n, d) => n * d, type.dtype.bytes);
    let storage: BufferStorage | undefined;
    try {
      storage = new BufferStorage(bytes, 'values of other ranks');
    } catch (error) {
      if (!(error instanceof OutOfMemoryError)) throw error;
    }
    if (this.#show(storage?.buffer)) return tensorOf(leafOf(storage!, type, false));
    storage?.release();
    return undefined;
  }
}
