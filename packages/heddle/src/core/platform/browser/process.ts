/** A page or a worker of one, in place of a process: no environment but variables of `globalThis`, no signals. */
import type * as node from '../node/process.js';

export const environment: typeof node.environment = () =>
  globalThis as unknown as ReturnType<typeof node.environment>;

export const print: typeof node.print = (line) => console.log(line);

export const warn: typeof node.warn = (line) => console.warn(line);

export const workingFolder: typeof node.workingFolder = () => '';

export const processId = 0;

export const hostName: typeof node.hostName = () => 'browser';

export const isRunning: typeof node.isRunning = () => false;

export const unheardSignals: typeof node.unheardSignals = () => [];

export const listen: typeof node.listen = () => {};

export const unlisten: typeof node.unlisten = () => {};

export const atExit: typeof node.atExit = () => {};

export const exit: typeof node.exit = () => {};

export const setExitCode: typeof node.setExitCode = () => {};
