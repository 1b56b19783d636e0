/** The body of a compile thread (threads.ts). */
import { parentPort, workerData } from 'node:worker_threads';
import { Nvrtc } from './nvrtc.js';
import { type CompileAnswer, type CompileOrder, type CompileThreadData, claimed } from './threads.js';

const { nvrtc: path, port, answers } = workerData as CompileThreadData;
let nvrtc: Nvrtc | undefined;

function compile({ source, arch }: CompileOrder): CompileAnswer['result'] {
  try {
    nvrtc ??= new Nvrtc(path);
    return nvrtc.compile(source.text, source.name, arch);
  } catch (error) {
    return { error: (error as Error).message };
  }
}

port.on('message', (order: CompileOrder) => {
  const { number } = order;
  const result = claimed(order) ? compile(order) : undefined;
  port.postMessage({ number, ...(result && { result }) } satisfies CompileAnswer);
  Atomics.add(answers, 0, 1);
  Atomics.notify(answers, 0);
});
// Keeps the thread there for the next program; the process may end all the same.
parentPort?.ref();
