/** The processes that train together, as a training sees them. `heddle/distributed` sets them. */
import type { AnyTensor, Tensor } from './tensor.js';

/** How parameters are updated that each have an owner among the ranks. */
export interface OwnedUpdate {
  /** The rank that updates a parameter; undefined: all ranks do. */
  ownerOf(parameter: Tensor): number | undefined;
  /** What the sum over all ranks of a gradient is divided by: a number or a scalar. */
  readonly divisor: number | Tensor;
  /** Update a parameter, whose gradient is the mean by then. */
  update(parameter: Tensor): void;
  /** Give a parameter the value that another rank has computed. */
  assign(parameter: Tensor, value: Tensor): void;
}

export interface World {
  /** The number of this process, from 0. */
  readonly rank: number;
  /** How many there are. */
  readonly size: number;
  /**
   * The sums over all ranks of each of these, of the same shapes on all ranks. May be traced.
   * @param equalBatches what they are computed of has the same shapes, too
   */
  sum(tensors: readonly AnyTensor[], equalBatches?: boolean): AnyTensor[];
  /** x (n, …) of all ranks one after the other, (size · n, …). May be traced. */
  gather(x: AnyTensor): AnyTensor;
  /** The values that these tensors have on one rank. May be traced. */
  tensorsOf(rank: number, tensors: readonly AnyTensor[]): AnyTensor[];
  /**
   * Average the gradients of parameters, update each on the ranks that do so, and give all ranks its value. May be traced.
   * @param moving those with gradients, in the same order on all ranks
   */
  updateByOwners(moving: readonly Tensor[], work: OwnedUpdate): void;
  /** The text that rank 0 has. */
  textOfFirst(text: string): Promise<string>;
}

let current: World | undefined;

/** Undefined where this process trains alone. */
export const currentWorld = (): World | undefined => current;

export const setWorld = (world: World | undefined): void => {
  current = world;
};
