/** Serves models: Open Inference Protocol v2 over REST and gRPC, with dynamic batching. */
export { addServe } from './command.js';
export { LOG_LEVELS, type ServeOptions } from './options.js';
export { type RunningService, serve } from './serve.js';
