/** Values that ranks leave for each other, and barriers. */
import { type ControlAnswer, type ControlRequest, ranks } from './messages.js';

type Answer = Omit<ControlAnswer, 'kind' | 'id'>;
type Reply = (answer: Answer) => void;

interface Waiter {
  readonly rank: number;
  readonly reply: Reply;
  readonly timer: NodeJS.Timeout;
}

export class ControlStore {
  readonly #worldSize: number;
  readonly #values = new Map<string, { readonly value: string; readonly rank: number }>();
  readonly #getters = new Map<string, Set<Waiter>>();
  readonly #atBarrier = new Map<number, Waiter>();
  readonly #gone = new Set<number>();

  constructor(worldSize: number) {
    this.#worldSize = worldSize;
  }

  ask(rank: number, request: ControlRequest, reply: Reply): void {
    if (request.kind === 'set') this.#set(rank, request.key, request.value, reply);
    else if (request.kind === 'get') this.#get(rank, request, reply);
    else this.#barrier(rank, request.timeoutMs, reply);
  }

  /** A rank has ended in order: it comes to no barrier any more. */
  leave(rank: number): void {
    this.#gone.add(rank);
    this.#failBarrier();
  }

  close(): void {
    for (const waiters of this.#getters.values()) for (const { timer } of waiters) clearTimeout(timer);
    for (const { timer } of this.#atBarrier.values()) clearTimeout(timer);
  }

  #set(rank: number, key: string, value: string, reply: Reply): void {
    const known = this.#values.get(key);
    if (known) {
      reply({ error: `Rank ${known.rank} has already set '${key}': a key is set once.` });
      return;
    }
    this.#values.set(key, { value, rank });
    reply({});
    for (const waiter of this.#getters.get(key) ?? []) {
      clearTimeout(waiter.timer);
      waiter.reply({ value });
    }
    this.#getters.delete(key);
  }

  #get(rank: number, { key, timeoutMs }: ControlRequest & { kind: 'get' }, reply: Reply): void {
    const known = this.#values.get(key);
    if (known) {
      reply({ value: known.value });
      return;
    }
    const waiters = this.#getters.get(key) ?? new Set();
    this.#getters.set(key, waiters);
    const timer = setTimeout(() => {
      waiters.delete(waiter);
      reply({ error: `Rank ${rank} has waited ${timeoutMs / 1000} s for '${key}', which no rank has set.` });
    }, timeoutMs);
    const waiter: Waiter = { rank, reply, timer };
    waiters.add(waiter);
  }

  #barrier(rank: number, timeoutMs: number, reply: Reply): void {
    const timer = setTimeout(() => {
      const absent = this.#absent();
      this.#atBarrier.delete(rank);
      reply({
        error: `Rank ${rank} has waited ${timeoutMs / 1000} s at a barrier for ${ranks(absent)}.`,
      });
    }, timeoutMs);
    this.#atBarrier.set(rank, { rank, reply, timer });
    if (this.#atBarrier.size === this.#worldSize) this.#release({});
    else this.#failBarrier();
  }

  #absent(): number[] {
    return Array.from({ length: this.#worldSize }, (_, rank) => rank).filter(
      (rank) => !this.#atBarrier.has(rank),
    );
  }

  #failBarrier(): void {
    if (this.#atBarrier.size === 0 || this.#gone.size === 0) return;
    const all = [...this.#gone].sort((a, b) => a - b);
    this.#release({ error: `The barrier cannot complete: ${ranks(all)} ended before reaching it.` });
  }

  #release(answer: Answer): void {
    const waiters = [...this.#atBarrier.values()];
    this.#atBarrier.clear();
    for (const { reply, timer } of waiters) {
      clearTimeout(timer);
      reply(answer);
    }
  }
}
