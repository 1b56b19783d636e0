/** `heddle summary`: what a network is made of. */
import { programNamed } from '../train/index.js';
import { EXAMPLES } from './training-steps.js';

export interface SummaryCommandOptions {
  readonly batchSize?: number;
}

/** Print the table of a program's layers. */
export function summary(name: string, { batchSize = 1 }: SummaryCommandOptions): void {
  const program = programNamed(name);
  const table = program.build().summary(EXAMPLES[program.data].shape, { batchSize });
  process.stdout.write(`${name}: ${program.doc}, batch of ${batchSize}\n\n${table}\n`);
}
