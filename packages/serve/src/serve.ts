/** A service: a folder of models, and the ports on which they answer. */
import type { AddressInfo } from 'node:net';
import { ArgumentError } from 'heddle';
import { aString, requireArgument } from 'heddle/internal/core/arguments.js';
import { AccessControl } from './access.js';
import { createGrpcServer, listen } from './grpc/server.js';
import { ServiceMetrics } from './metrics.js';
import { type DecidedOptions, decide, type ServeOptions } from './options.js';
import { Repository } from './repository/repository.js';
import { addRoutes, createApp } from './rest/app.js';
import type { Service } from './service.js';

/** A service that is running. */
export interface RunningService {
  /** Where REST and the page are: http://127.0.0.1:8080. */
  readonly url: string;
  /** Where gRPC is: 127.0.0.1:8081; undefined if it was left out. */
  readonly grpcAddress: string | undefined;
  /** The processes in which models compute. */
  readonly workers: () => readonly number[];
  /** Answer what has been accepted, refuse what comes, and end. */
  readonly close: () => Promise<void>;
}

/**
 * Serve the models of a folder, each in a folder of its name: `<folder>/<model>/<version>/`. It listens when it returns;
 * models that cannot be loaded are logged, and listed with the reason in the repository's index.
 * @throws ArgumentError for options; FileError if the folder, the keys or the certificate cannot be read; an Error of Node if a port is taken
 */
export async function serve(folder: string, options: ServeOptions = {}): Promise<RunningService> {
  requireArgument('serve', 'folder', folder, aString);
  const decided = decide(options);
  if ((decided.tlsCert === undefined) !== (decided.tlsKey === undefined))
    throw new ArgumentError('[serve] tlsCert and tlsKey go together: one of them is missing.');
  return start(folder, decided);
}

async function start(folder: string, options: DecidedOptions): Promise<RunningService> {
  const { device, drainMs, host, port, apiKeys, rateLimit } = options;
  const access = new AccessControl(apiKeys, rateLimit);
  const app = createApp(options);
  const metrics: ServiceMetrics = new ServiceMetrics(() => repository.loaded());
  const repository = new Repository({ folder, device, log: app.log, metrics, graceMs: drainMs });
  let isDraining = false;
  const service: Service = {
    ...{ repository, metrics, access, limits: options },
    isReady: () => !isDraining && repository.isReady,
  };
  addRoutes(app, service, options);
  const grpc = options.grpcPort === null ? undefined : createGrpcServer(service, options, app.log);
  let grpcPort: number | undefined;
  try {
    await repository.loadAll();
    if (grpc) grpcPort = await listen(grpc, options);
    await app.listen({ host, port });
  } catch (error) {
    grpc?.forceShutdown();
    await Promise.all([app.close(), repository.close(0)]);
    throw error;
  }
  const { address, family, port: actual } = app.server.address() as AddressInfo;
  let ended: Promise<void> | undefined;
  const end = async (): Promise<void> => {
    isDraining = true;
    app.log.info(
      { waiting: [...repository.loaded()].reduce((sum, own) => sum + own.waiting, 0) },
      'the service is ending',
    );
    const closing = Promise.all([
      app.close(),
      grpc && new Promise<void>((done) => grpc.tryShutdown(() => done())),
    ]);
    await repository.close(drainMs);
    grpc?.forceShutdown();
    app.server.closeAllConnections();
    await closing;
  };
  return {
    url: `${options.tlsCert === undefined ? 'http' : 'https'}://${family === 'IPv6' ? `[${address}]` : address}:${actual}`,
    grpcAddress:
      grpcPort === undefined ? undefined : `${host.includes(':') ? `[${host}]` : host}:${grpcPort}`,
    workers: () => [...repository.loaded()].flatMap(({ pids }) => pids),
    close: () => {
      ended ??= end();
      return ended;
    },
  };
}
