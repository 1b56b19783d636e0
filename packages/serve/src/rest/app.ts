/** The HTTP side: its routes, and what holds for all of them. */
import { readFileSync } from 'node:fs';
import Fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify';
import type { Permission } from '../access.js';
import { ServiceError } from '../errors.js';
import type { DecidedOptions } from '../options.js';
import type { Service } from '../service.js';
import { traceOf } from '../trace.js';
import { addClassifyRoutes } from './classify-routes.js';
import { addInferRoutes } from './infer-routes.js';
import { addModelRoutes } from './model-routes.js';
import { addPageRoutes } from './page-routes.js';
import { addRepositoryRoutes } from './repository-routes.js';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What a client must be allowed to do; default: infer. `anyone`: no key is asked for. */
    readonly permission?: Permission | 'anyone';
  }
}

/** The HTTP server without routes: what it logs is there before there is a service. */
export function createApp(options: DecidedOptions): FastifyInstance {
  const { maxBodyBytes, receiveTimeoutMs, trustProxy, logLevel, tlsCert, tlsKey } = options;
  const https = tlsCert !== undefined &&
    tlsKey !== undefined && {
      https: { cert: readFileSync(tlsCert), key: readFileSync(tlsKey) },
    };
  const app = Fastify({
    logger: { level: logLevel },
    // Requests are logged in a line each, where that is asked for.
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: maxBodyBytes,
    requestTimeout: receiveTimeoutMs,
    // Node looks for requests that take too long this often.
    http: { headersTimeout: receiveTimeoutMs, connectionsCheckingInterval: Math.min(1000, receiveTimeoutMs) },
    trustProxy: trustProxy.length > 0 ? [...trustProxy] : false,
    forceCloseConnections: 'idle',
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 256 },
    ...https,
  }) as FastifyInstance;
  // Bodies are read as they are: each route knows what they should be.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  app.setErrorHandler((error: Error, request, reply) => answerError(error, request, reply));
  app.setNotFoundHandler((request, reply) =>
    reply
      .code(404)
      .send({ error: `there is no ${request.method} ${request.url.split('?')[0]}. See /openapi.json.` }),
  );
  return app;
}

/** What the service offers, added to the server. */
export function addRoutes(app: FastifyInstance, service: Service, { logRequests }: DecidedOptions): void {
  if (!service.access.isOpen)
    app.addHook('onRequest', async (request) => {
      const { permission = 'infer' } = request.routeOptions.config;
      if (permission === 'anyone') return;
      const { authorization, 'x-api-key': apiKey } = request.headers;
      await service.access.admit(
        { authorization, apiKey: typeof apiKey === 'string' ? apiKey : undefined, address: request.ip },
        permission,
      );
    });
  app.addHook('onRequest', (request, reply, done) => {
    const trace = traceOf(request.headers.traceparent);
    if (trace) reply.header('traceparent', trace.traceparent);
    done();
  });
  if (logRequests)
    app.addHook('onResponse', (request, reply, done) => {
      request.log.info(
        {
          ...{ method: request.method, url: request.url, status: reply.statusCode, ms: reply.elapsedTime },
          ...{ address: request.ip, trace: traceOf(request.headers.traceparent)?.traceId },
        },
        'answered',
      );
      done();
    });
  addModelRoutes(app, service);
  addInferRoutes(app, service);
  addPageRoutes(app);
  addClassifyRoutes(app, service);
  addRepositoryRoutes(app, service);
  app.get('/metrics', async (_request, reply) => {
    const { registry } = service.metrics;
    return reply.header('content-type', registry.contentType).send(await registry.metrics());
  });
}

/** Errors as the protocol wants them: `{ "error": "…" }`. */
function answerError(
  error: Error & { statusCode?: number },
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  if (error instanceof ServiceError) {
    if (error.retryAfter !== undefined) reply.header('retry-after', error.retryAfter);
    if (error.kind === 'unauthorized') reply.header('www-authenticate', 'Bearer');
    if (error.kind === 'internal')
      request.log.error({ error: error.message, trace: request.headers.traceparent }, 'a request failed');
    void reply.code(error.httpStatus).send({ error: error.message });
    return;
  }
  const status = error.statusCode ?? 500;
  if (status < 500) {
    void reply.code(status).send({ error: error.message });
    return;
  }
  request.log.error({ err: error, trace: request.headers.traceparent }, 'a request failed');
  void reply.code(500).send({ error: 'the service failed; its log says why.' });
}
