/** Which of several ranks keeps the state of which parameter, and updates it. */
import type { Tensor } from '../tensor/tensor.js';
import type { OwnedUpdate, World } from '../tensor/world.js';
import type { State } from './state.js';

/** How an optimizer's state is divided among ranks. */
export interface ShardOptions {
  /** Whether `step` averages the gradients over the ranks. Default: they are averaged before. */
  readonly averages?: boolean;
  /** Parameters whose state every rank keeps: all ranks update them. Default: none. */
  readonly replicated?: Iterable<Tensor>;
}

export class Sharding {
  readonly #world: World;
  readonly #owners: ReadonlyMap<Tensor, number>;
  readonly #averages: boolean;

  /** @param parameters the same, in the same order, on all ranks */
  constructor(
    world: World,
    parameters: readonly Tensor[],
    { averages = false, replicated = [] }: ShardOptions,
  ) {
    const whole = new Set(replicated);
    this.#world = world;
    this.#owners = evenly(
      parameters.filter((p) => !whole.has(p)),
      world.size,
    );
    this.#averages = averages;
  }

  /** Whether this rank updates the parameter. */
  isOwn(parameter: Tensor): boolean {
    const owner = this.#owners.get(parameter);
    return owner === undefined || owner === this.#world.rank;
  }

  /**
   * Update parameters, each on the rank that has its state, and give every rank what others have updated.
   * @param moving those with gradients, in the same order on all ranks
   */
  update(
    moving: readonly Tensor[],
    {
      update,
      assign,
      divisor = this.#world.size,
    }: Omit<OwnedUpdate, 'ownerOf' | 'divisor'> & { readonly divisor?: OwnedUpdate['divisor'] | undefined },
  ): void {
    if (this.#averages) {
      const ownerOf = (p: Tensor): number | undefined => this.#owners.get(p);
      this.#world.updateByOwners(moving, { ownerOf, update, assign, divisor });
      return;
    }
    for (const parameter of moving) if (this.isOwn(parameter)) update(parameter);
    for (const [owner, parameters] of this.#byOwner(moving)) {
      // The owner takes them as well: what nobody needs would not be sent.
      const values = this.#world.tensorsOf(owner, parameters);
      for (const [i, parameter] of parameters.entries()) assign(parameter, values[i] as Tensor);
    }
  }

  /** The state of all parameters. @param states of those of other ranks in shape and dtype only */
  gather(states: ReadonlyMap<Tensor, State>): Map<Tensor, State> {
    const whole = new Map<Tensor, State>();
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
