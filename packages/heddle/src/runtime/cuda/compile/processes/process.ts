/** The body of a compile process (pool.ts). It ends with the process that started it. */

import { Nvrtc } from '../nvrtc.js';
import type { CompileAnswer, CompileOrder } from './orders.js';

const nvrtc = new Nvrtc(process.argv[2]!);

process.on('message', ({ number, source, arch }: CompileOrder) => {
  let result: CompileAnswer['result'];
  try {
    result = nvrtc.compile(source.text, source.name, arch);
  } catch (error) {
    result = { error: (error as Error).message };
  }
  process.send!({ number, result } satisfies CompileAnswer);
});
process.on('disconnect', () => process.exit());
// Ctrl-C is for the process that trains, which decides when to end.
process.on('SIGINT', () => {});
process.send!('ready');
