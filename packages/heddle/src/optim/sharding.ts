/** Which of several ranks keeps the state of which parameter, and updates it. */
import type { Tensor } from '../tensor/tensor.js';
import type { World } from '../tensor/world.js';
import type { State } from './state.js';

export class Sharding {
  readonly #world: World;
  readonly #owners: ReadonlyMap<Tensor, number>;

  /** @param parameters the same, in the same order, on all ranks */
  constructor(world: World, parameters: readonly Tensor[]) {
    this.#world = world;
    this.#owners = evenly(parameters, world.size);
  }

  /** Whether this rank updates the parameter. */
  isOwn(parameter: Tensor): boolean {
    return this.#owners.get(parameter) === this.#world.rank;
  }

  /**
   * Give every rank the parameters that others have updated.
   * @param moving those that were updated, in the same order on all ranks
   */
  exchange(moving: readonly Tensor[], assign: (to: Tensor, value: Tensor) => void): void {
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
