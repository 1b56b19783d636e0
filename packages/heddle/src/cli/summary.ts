/** `heddle summary`: what a network is made of. */
import { i32 } from '../core/dtype.js';
import { zeros } from '../tensor/create.js';
import { programNamed } from '../train/index.js';
import { EXAMPLES } from './training-steps.js';

export interface SummaryCommandOptions {
  readonly batchSize?: number;
}

/** Print the table of a program's layers. */
export function summary(name: string, { batchSize = 1 }: SummaryCommandOptions): void {
  const program = programNamed(name);
  const { shape } = EXAMPLES[program.data];
  const input = program.data === 'text' ? zeros([batchSize, ...shape], { dtype: i32 }) : shape;
  const table = program.build().summary(input, { batchSize });
  process.stdout.write(`${name}: ${program.doc}, batch of ${batchSize}\n\n${table}\n`);
}
