/** Health and metadata. */
import type { FastifyInstance } from 'fastify';
import { packageVersion } from '../package-version.js';
import { EXTENSIONS, SERVER_NAME, type Service } from '../service.js';

/** The parts of a path that name a model. */
export interface ModelParams {
  readonly model: string;
  readonly version?: string;
}

/** The routes of one thing that a model does: with a version, and without. */
export const modelPaths = (end: string): readonly string[] => [
  `/v2/models/:model${end}`,
  `/v2/models/:model/versions/:version${end}`,
];

export function addModelRoutes(app: FastifyInstance, { repository, isReady }: Service): void {
  const anyone = { config: { permission: 'anyone' } } as const;
  app.get('/v2/health/live', anyone, async () => ({ live: true }));
  app.get('/v2/health/ready', anyone, async (_request, reply) =>
    reply.code(isReady() ? 200 : 503).send({ ready: isReady() }),
  );
  app.get('/v2', async () => ({ name: SERVER_NAME, version: packageVersion(), extensions: EXTENSIONS }));
  for (const path of modelPaths('/ready'))
    app.get<{ Params: ModelParams }>(path, async ({ params }, reply) => {
      const own = repository.find(params.model, params.version);
      return reply.code(own.isReady ? 200 : 503).send({ name: own.model, ready: own.isReady });
    });
  for (const path of modelPaths(''))
    app.get<{ Params: ModelParams }>(path, async ({ params }) => {
      const { model, spec } = repository.find(params.model, params.version);
      const described = ({ name, datatype, shape }: (typeof spec.inputs)[number]): object => ({
        name,
        datatype,
        shape,
      });
      return {
        name: model,
        versions: repository.loadedVersions(model),
        platform: spec.platform,
        inputs: spec.inputs.map(described),
        outputs: spec.outputs.map(described),
      };
    });
}
