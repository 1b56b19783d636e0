/** A rank of `heddle bench collectives` that has a GPU. The first prints what it has measured. */
import { jit, randn, time, useDevice } from 'heddle';
import * as distributed from 'heddle/distributed';
import type { RankReport } from './collectives-child.js';

export interface GpuSettings {
  readonly device: string;
  /** Bytes that each rank has. */
  readonly sizes: readonly number[];
}

/** Sums of a round, one after the other: long enough that the ranks' different beginnings do not show. */
const callsOf = (bytes: number): number => (bytes < 1e7 ? 200 : bytes <= 1e8 ? 30 : 8);
const [ROUNDS, WARM_UP] = [15, 3];

const { device, sizes } = JSON.parse(process.argv[2]!) as GpuSettings;
useDevice(device);
await distributed.init();
const reports: RankReport[] = [];
for (const bytes of sizes) {
  const x = randn([bytes / 4]);
  // A program of a collective alone: from its second run on it is a CUDA graph.
  const sum = jit(() => distributed.allReduce(x));
  const calls = callsOf(bytes);
  const milliseconds: number[] = [];
  for (let round = -WARM_UP; round < ROUNDS; round++) {
    await distributed.barrier();
    const us = await time(() => {
      for (let i = 0; i < calls; i++) sum().dispose();
    });
    if (round >= 0) milliseconds.push(us / calls / 1000);
  }
  reports.push({ by: 'nccl graph', bytes, milliseconds });
  sum.dispose();
  x.dispose();
}
if (distributed.rank() === 0) process.stdout.write(JSON.stringify(reports));
await distributed.close();
