/** The body of a compile thread (threads.ts). */
import { parentPort, workerData } from 'node:worker_threads';
import { Nvrtc } from './nvrtc.js';
import { COUNT, type CompileAnswer, type CompileTask, type CompileThreadData } from './threads.js';

const { nvrtc: path, port, counts } = workerData as CompileThreadData;
let nvrtc: Nvrtc | undefined;

function answer({ index, source, arch }: CompileTask): CompileAnswer {
  try {
    nvrtc ??= new Nvrtc(path);
    return { index, result: nvrtc.compile(source.text, source.name, arch) };
  } catch (error) {
    return { index, error: (error as Error).message };
  }
}

port.on('message', (task: CompileTask) => {
  port.postMessage(answer(task));
  Atomics.add(counts, COUNT.messages, 1);
  Atomics.notify(counts, COUNT.messages);
});
Atomics.add(counts, COUNT.started, 1);
// Keeps the thread there for the next program; the process may end all the same.
parentPort?.ref();
