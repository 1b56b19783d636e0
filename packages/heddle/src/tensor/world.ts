/** The processes that train together, as a training sees them. `heddle/distributed` sets them. */
import type { AnyTensor, Tensor } from './tensor.js';

/** What an optimizer keeps of a parameter, by name. */
export type ShardedState = Readonly<Record<string, Tensor>>;

/** How an optimizer's state is divided among ranks. */
export interface ShardOptions {
  /** Whether each step averages the gradients over the ranks. Default: those that are told a divisor. */
  readonly averages?: boolean;
  /** Parameters whose state every rank keeps: all ranks update them. Default: none. */
  readonly replicated?: Iterable<Tensor>;
}

/** A step of an optimizer whose state is divided among ranks. */
export interface ShardedStep {
  /** Update a parameter, whose gradient is the mean by then. */
  update(parameter: Tensor): void;
  /** Give a parameter the value that another rank has computed. */
  assign(parameter: Tensor, value: Tensor): void;
  /**
   * Average the gradients first: what their sums over all ranks are divided by, a number or a scalar. Default: the number of ranks, if each
   * step averages; otherwise gradients are taken as they are.
   */
  readonly divisor?: number | Tensor | undefined;
  /** Whether the batches of all ranks have the same shapes: gradients of embeddings then travel as rows. Default: those of replicated parameters only. */
  readonly equalBatches?: boolean | undefined;
}

/** An optimizer's parameters, each of which is updated on one rank, or on all. */
export interface Sharding {
  /** Whether this rank updates the parameter. */
  isOwn(parameter: Tensor): boolean;
  /**
   * Update parameters, each on the rank that has its state, and give every rank what others have updated. May be traced.
   * @param moving those with gradients, in the same order on all ranks
   */
  update(moving: readonly Tensor[], step: ShardedStep): void;
  /** The state of all that one rank updates. @param states of those of other ranks in shape and dtype only */
  gather(states: ReadonlyMap<Tensor, ShardedState>): Map<Tensor, ShardedState>;
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
  /** Divide the state of these parameters among the ranks. @param parameters the same, in the same order, on all ranks */
  shard(parameters: readonly Tensor[], options: ShardOptions): Sharding;
  /** The text that rank 0 has. */
  textOfFirst(text: string): Promise<string>;
}

let current: World | undefined;

/** Undefined where this process trains alone. */
export const currentWorld = (): World | undefined => current;

export const setWorld = (world: World | undefined): void => {
  current = world;
};
