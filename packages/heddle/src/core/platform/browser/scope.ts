/** The scope that the library runs in: a page, or a worker of one. */

const scope = globalThis as { readonly crossOriginIsolated?: boolean; readonly WorkerGlobalScope?: unknown };

/** Whether workers can be given shared memory. */
export const mayShare = (): boolean => scope.crossOriginIsolated === true;

/** Whether this thread may wait, which the main thread of a page may not. */
export const mayWait = (): boolean => scope.WorkerGlobalScope !== undefined;
