/** The body of a compile thread (threads.ts). */
import { parentPort, workerData } from 'node:worker_threads';
import { Nvrtc } from './nvrtc.js';
import { COUNT, type CompileAnswer, type CompileBatch, type CompileThreadData } from './threads.js';

const { nvrtc: path, port } = workerData as CompileThreadData;
let nvrtc: Nvrtc | undefined;

function compile({ sources, arch }: CompileBatch, index: number): CompileAnswer['result'] {
  try {
    nvrtc ??= new Nvrtc(path);
    return nvrtc.compile(sources[index]!.text, sources[index]!.name, arch);
  } catch (error) {
    return { error: (error as Error).message };
  }
}

port.on('message', (batch: CompileBatch) => {
  const { counts, sources } = batch;
  for (;;) {
    const index = Atomics.add(counts, COUNT.next, 1);
    if (index >= sources.length) return;
    port.postMessage({ batch: batch.number, index, result: compile(batch, index) } satisfies CompileAnswer);
    Atomics.add(counts, COUNT.answers, 1);
    Atomics.notify(counts, COUNT.answers);
  }
});
// Keeps the thread there for the next program; the process may end all the same.
parentPort?.ref();
