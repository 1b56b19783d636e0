/** Which of several ranks keeps the state of which parameter, and updates it. */
import { ArgumentError } from '../core/errors.js';
import type { Tensor } from '../tensor/tensor.js';
import type { ShardedState, ShardedStep, Sharding, ShardOptions, World } from '../tensor/world.js';
import { updateByOwners } from './updates.js';

export class OwnedParameters implements Sharding {
  readonly #world: World;
  readonly #owners: ReadonlyMap<Tensor, number>;
  /** Of sums over all ranks in a step that says no other; undefined: it takes gradients as they are. */
  readonly #divisor: number | undefined;

  /** @param parameters the same, in the same order, on all ranks */
  constructor(
    world: World,
    parameters: readonly Tensor[],
    { averages = false, replicated = [] }: ShardOptions,
  ) {
    const whole = new Set(replicated);
    if ([...whole].some((p) => !parameters.includes(p)))
      throw new ArgumentError('[shardOptimizer] replicated has a tensor that the optimizer does not update.');
    this.#world = world;
    this.#owners = evenly(
      parameters.filter((p) => !whole.has(p)),
      world.size,
    );
    this.#divisor = averages ? world.size : undefined;
  }

  isOwn(parameter: Tensor): boolean {
    const owner = this.#owners.get(parameter);
    return owner === undefined || owner === this.#world.rank;
  }

  update(
    moving: readonly Tensor[],
    { update, assign, divisor = this.#divisor, equalBatches = false }: ShardedStep,
  ): void {
    if (divisor !== undefined) {
      const ownerOf = (p: Tensor): number | undefined => this.#owners.get(p);
      updateByOwners(moving, { ownerOf, update, assign, divisor, equalBatches });
      return;
    }
    for (const parameter of moving) if (this.isOwn(parameter)) update(parameter);
    for (const [owner, parameters] of this.#byOwner(moving)) {
      // The owner takes them as well: what nobody needs would not be sent.
      const values = this.#world.tensorsOf(owner, parameters);
      for (const [i, parameter] of parameters.entries()) assign(parameter, values[i] as Tensor);
    }
  }

  gather(states: ReadonlyMap<Tensor, ShardedState>): Map<Tensor, ShardedState> {
    const whole = new Map<Tensor, ShardedState>();
    for (const [owner, parameters] of this.#byOwner([...states.keys()])) {
      const names = parameters.map((p) => Object.keys(states.get(p)!));
      const values = this.#world.tensorsOf(
        owner,
        parameters.flatMap((p) => Object.values(states.get(p)!)),
      );
      parameters.forEach((parameter, i) => {
        const own = names[i]!.map((name) => [name, values.shift() as Tensor] as const);
        whole.set(parameter, Object.fromEntries(own));
      });
    }
    return whole;
  }

  #byOwner(parameters: readonly Tensor[]): [owner: number, parameters: Tensor[]][] {
    return Array.from({ length: this.#world.size }, (_, owner): [number, Tensor[]] => [
      owner,
      parameters.filter((p) => this.#owners.get(p) === owner),
    ]).filter(([, own]) => own.length > 0);
  }
}

/** Each parameter, the largest first, to the rank that has the fewest elements by then. */
function evenly(parameters: readonly Tensor[], ranks: number): Map<Tensor, number> {
  const loads = Array.from({ length: ranks }, () => 0);
  const owners = new Map<Tensor, number>();
  for (const parameter of [...parameters].sort((a, b) => b.size - a.size)) {
    const owner = loads.indexOf(Math.min(...loads));
    loads[owner] = loads[owner]! + parameter.size;
    owners.set(parameter, owner);
  }
  return owners;
}
