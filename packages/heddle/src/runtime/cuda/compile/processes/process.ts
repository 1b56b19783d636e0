/** The body of a compile process (pool.ts). It ends with the process that started it. */

import { Nvrtc } from '../nvrtc.js';
import type { CompileAnswer, CompileOrder } from './orders.js';

const nvrtc = new Nvrtc(process.argv[2]!);

process.on('message', (orders: readonly CompileOrder[]) => {
  process.send!(answers(orders));
});

function answers(orders: readonly CompileOrder[]): CompileAnswer[] {
  try {
    const results = nvrtc.compileTogether(
      orders.map(({ source }) => source),
      orders[0]!.arch,
    );
    return orders.map(({ number }, i) => ({ number, result: results[i]! }));
  } catch (error) {
    return orders.map(({ number }) => ({ number, result: { error: (error as Error).message } }));
  }
}
process.on('disconnect', () => process.exit());
// Ctrl-C is for the process that trains, which decides when to end.
process.on('SIGINT', () => {});
process.send!('ready');
