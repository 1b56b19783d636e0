/**
 * Data parallel training where each parameter is updated on one rank (S. Rajbhandari et al., ZeRO: Memory optimizations toward training
 * trillion parameter models, 2020: stages 1 and 2). Gradients travel to the rank that updates, and new values from there.
 */
import {
  aBoolean,
  instance,
  listOf,
  type Rules,
  requireArgument,
  requireOptions,
} from '../core/arguments.js';
import { type BaseSettings, Optimizer } from '../optim/index.js';
import { noteOwnGradients } from '../optim/own-gradients.js';
import { Tensor } from '../tensor/tensor.js';
import { currentWorld } from '../tensor/world.js';
import { membership } from './membership.js';

/** Options of `shardOptimizer`. */
export interface ShardOptimizerOptions {
  /**
   * Whether the optimizer's `step` averages the gradients over the ranks (default false). Call no `averageGradients` then. In `jit`, between
   * two GPUs of a host, each gradient travels only to the rank that needs it, and new values of parameters while the backward pass goes
   * on: the gradients' norm, which `clipGradNorm` needs, is not known.
   */
  readonly averages?: boolean;
  /**
   * Parameters whose state every rank keeps (default none). With `averages`: tables of embeddings, whose gradients travel as the rows that
   * a batch looks up and are complete when the backward pass ends. All ranks' batches then have the same shapes.
   */
  readonly replicated?: readonly Tensor[];
}

const SHARD: Rules<ShardOptimizerOptions> = {
  averages: aBoolean,
  replicated: listOf(instance(Tensor, 'a parameter')),
};

/**
 * Keep the state of each parameter on one rank only, which updates it and gives it to the others: with n ranks, each has
 * about an n-th of the state (S. Rajbhandari et al., ZeRO: Memory optimizations toward training trillion parameter models,
 * 2020: stage 1). Call it once, before the first step; all ranks call `step` and `stateDict` together from then on, with
 * averaged gradients unless `step` averages them. A saved state is whole, and loads with any number of ranks. (`fit` has an option for it.)
 * @throws ArgumentError for a replicated tensor that is no parameter of the optimizer
 */
export function shardOptimizer(
  optimizer: Optimizer<BaseSettings>,
  options: ShardOptimizerOptions = {},
): void {
  requireArgument(
    'shardOptimizer',
    'optimizer',
    optimizer,
    instance(Optimizer, 'an optimizer, such as optim.AdamW'),
  );
  requireOptions('shardOptimizer', options, SHARD);
  membership();
  const world = currentWorld();
  if (!world) return;
  optimizer.shard(world, options);
  if (options.averages) noteOwnGradients(optimizer.groups.flatMap(({ params }) => params));
}
