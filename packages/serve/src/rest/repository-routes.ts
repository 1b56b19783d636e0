/** The protocol's extension for repositories: what is there, loading and unloading. */
import type { FastifyInstance } from 'fastify';
import { isPlainObject, shown } from 'heddle/internal/core/arguments.js';
import { invalid } from '../errors.js';
import type { Service } from '../service.js';

export function addRepositoryRoutes(app: FastifyInstance, { repository }: Service): void {
  const admin = { config: { permission: 'admin' } } as const;
  app.post<{ Body: Buffer | undefined }>('/v2/repository/index', async ({ body }) => {
    const { ready } = fieldsOf(body);
    if (ready !== undefined && typeof ready !== 'boolean')
      throw invalid(`ready is ${shown(ready)}, must be true or false.`);
    const index = await repository.index();
    return ready ? index.filter(({ state }) => state === 'READY') : index;
  });
  app.post<{ Params: { readonly model: string }; Body: Buffer | undefined }>(
    '/v2/repository/models/:model/load',
    admin,
    async ({ params, body }, reply) => {
      const { parameters = {} } = fieldsOf(body);
      if (!isPlainObject(parameters) || Object.keys(parameters).length > 0)
        throw invalid(
          `parameters is ${shown(parameters)}, must be empty: a model is loaded as its folder and its settings.json are.`,
        );
      await repository.load(params.model);
      return reply.code(200).send();
    },
  );
  app.post<{ Params: { readonly model: string } }>(
    '/v2/repository/models/:model/unload',
    admin,
    async ({ params }, reply) => {
      await repository.unload(params.model);
      return reply.code(200).send();
    },
  );
}

function fieldsOf(body: Buffer | undefined): Readonly<Record<string, unknown>> {
  if (body === undefined || body.length === 0) return {};
  let fields: unknown;
  try {
    fields = JSON.parse(body.toString('utf8'));
  } catch (error) {
    throw invalid(`the body is not JSON (${(error as Error).message}).`);
  }
  if (isPlainObject(fields)) return fields;
  throw invalid(`the body is ${shown(fields)}, must be a JSON object.`);
}
