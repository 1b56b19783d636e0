/** `heddle/distributed`: several processes that train together. */
export {
  allGather,
  allReduce,
  type BroadcastOptions,
  barrier,
  broadcast,
  type CollectiveOptions,
  newGroup,
  type ReductionOptions,
  reduceScatter,
} from './collectives.js';
export {
  type AverageGradientsOptions,
  averageGradients,
  synchronizeBatchNorm,
} from './data-parallel.js';
export type { ProcessGroup } from './group.js';
export { close, type InitOptions, init, isInitialized, localRank, rank, worldSize } from './init.js';
export { type ShardOptimizerOptions, shardOptimizer } from './sharded.js';
export type { ReductionOp } from './transport.js';
