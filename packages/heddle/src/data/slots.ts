/** Where batches are made: memory that is used in turn. */
import { type HostMemory, type MemoryKind, openHostMemory } from '../tensor/modes.js';
import type { BatchSlot } from './fill.js';

/** What a slot has room for. */
export interface SlotSize {
  readonly examples: number;
  /** Numbers of an input. */
  readonly features: number;
  /** Inputs as `Dataset.bytes` gives them, else f32. */
  readonly bytes: boolean;
}

/** Slots of a loader. */
export interface Slots {
  /** How many slots there are besides those whose batches are being made or used. */
  readonly spare: number;
  take(count: number, size: SlotSize, memory: MemoryKind): readonly BatchSlot[];
  /** Resolves when a batch can be made in a slot whose batch has been used. Undefined if that is so already. */
  free(slot: BatchSlot): Promise<void> | undefined;
}

/** Memory of its own for each part. */
const newSlot = ({ examples, features, bytes }: SlotSize, memory: MemoryKind): BatchSlot => {
  const values = examples * features;
  return {
    inputs: bytes ? new Uint8Array(new memory(values)) : new Float32Array(new memory(4 * values)),
    labels: new Int32Array(new memory(4 * examples)),
  };
};

/** New ones for every epoch. */
export const NEW_SLOTS: Slots = {
  spare: 0,
  take: (count, size, memory) => Array.from({ length: count }, () => newSlot(size, memory)),
  free: () => undefined,
};

/**
 * The same from epoch to epoch, for one iteration at a time: memory that is new takes longer to be written to than making the
 * batch. Where the device can, it copies from there by itself.
 */
export class KeptSlots implements Slots {
  /** One that is copied from while the batch after it is made. */
  readonly spare = 1;
  #slots: readonly BatchSlot[] = [];
  readonly #pinned = new Map<BatchSlot, HostMemory>();

  take(count: number, size: SlotSize, memory: MemoryKind): readonly BatchSlot[] {
    if (this.#slots.length !== count)
      this.#slots = Array.from({ length: count }, (_, i) => this.#slots[i] ?? this.#open(size, memory));
    return this.#slots;
  }

  free(slot: BatchSlot): Promise<void> | undefined {
    return this.#pinned.get(slot)?.sent();
  }

  /** Labels behind inputs, if the device copies from there. */
  #open(size: SlotSize, memory: MemoryKind): BatchSlot {
    const { examples, features, bytes } = size;
    const inputBytes = 4 * Math.ceil((examples * features) / (bytes ? 4 : 1));
    const pinned = openHostMemory(inputBytes + 4 * examples, memory);
    if (!pinned) return newSlot(size, memory);
    const { buffer, offset } = pinned;
    const values = examples * features;
    const slot: BatchSlot = {
      inputs: bytes ? new Uint8Array(buffer, offset, values) : new Float32Array(buffer, offset, values),
      labels: new Int32Array(buffer, offset + inputBytes, examples),
    };
    this.#pinned.set(slot, pinned);
    return slot;
  }

  dispose(): void {
    for (const pinned of this.#pinned.values()) pinned.dispose();
    this.#pinned.clear();
    this.#slots = [];
  }
}
