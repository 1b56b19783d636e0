/** Classification of images: an image comes in, labels go out. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { shown } from 'heddle/internal/core/arguments.js';
import type { OutputTensor } from '../batching/batcher.js';
import { invalid, ServiceError } from '../errors.js';
import { rankedClasses } from '../images/classification.js';
import { decodeImageInput, imagesTensor } from '../images/image-bytes.js';
import { checkInputs } from '../protocol/infer-request.js';
import type { ImageInput } from '../protocol/model-spec.js';
import { urgencyOf } from '../protocol/urgency.js';
import type { ModelVersion } from '../repository/model-version.js';
import type { Service } from '../service.js';
import { requireIdentity, timeoutHeader, wantedBy } from './infer-routes.js';

interface ClassifyRoute {
  readonly Params: { readonly model: string };
  readonly Body: Buffer | undefined;
  readonly Querystring: Readonly<Record<string, string | string[] | undefined>>;
}

export function addClassifyRoutes(app: FastifyInstance, { repository, metrics, limits }: Service): void {
  app.post<ClassifyRoute>('/v1/models/:model/classify', async (request, reply) => {
    const began = performance.now();
    const { top, gradcam, version } = queryOf(request);
    const own = repository.find(request.params.model, version);
    let status = 500;
    try {
      const image = imageInputOf(own);
      requireIdentity(request.headers['content-encoding']);
      const timeoutMs = timeoutHeader(request.headers['x-request-timeout-ms']);
      const urgency = urgencyOf(
        { priority: undefined, timeout: undefined, timeoutMs },
        own.settings.timeoutMs,
      );
      const values = await decodeImageInput(request.body ?? Buffer.alloc(0), image, limits.maxImagePixels);
      const inputs = checkInputs(
        own.spec,
        [imagesTensor(own.spec, image, values)],
        own.settings.maxBatchSize,
      );
      const [output] = await wantedBy(reply, own.submit(inputs, urgency));
      const scores = new Float32Array(Uint8Array.from(output!.bytes).buffer);
      const classes = rankedClasses(scores, own.settings.scores, own.spec.classes, top);
      const target = classes[0]!.index;
      const heat = gradcam
        ? await heatOf(own, values, image, target, async () => {
            const [found] = await wantedBy(reply, own.submit({ ...inputs, target }, urgency));
            return found!;
          })
        : undefined;
      status = 200;
      return {
        model_name: own.model,
        model_version: own.version,
        classes,
        ...(heat && { gradcam: heat }),
      };
    } catch (error) {
      if (error instanceof ServiceError) status = error.httpStatus;
      throw error;
    } finally {
      metrics.answered(own.model, own.version, 'classify', status, performance.now() - began);
    }
  });
  app.get('/v1/models', async () => ({
    models: [...repository.loaded()].map(({ model, version, spec }) => ({
      ...{ name: model, version, classifies: spec.image !== undefined, explains: spec.explains === true },
      ...(spec.image && { image: { size: spec.image.size, channels: spec.image.channels } }),
    })),
  }));
}

/** The parameters of the path. @throws ServiceError for others */
function queryOf({ query }: FastifyRequest<ClassifyRoute>): {
  readonly top: number;
  readonly gradcam: boolean;
  readonly version: string | undefined;
} {
  const { top = '5', gradcam = 'false', version, ...others } = query;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined)
    throw invalid(`the parameter ${shown(unknown)} is unknown. Parameters: top, gradcam, version.`);
  const count = typeof top === 'string' && /^[1-9]\d{0,3}$/.test(top) ? Number(top) : Number.NaN;
  if (!(count <= 1000)) throw invalid(`top is ${shown(top)}, must be an integer from 1 to 1000.`);
  if (gradcam !== 'true' && gradcam !== 'false')
    throw invalid(`gradcam is ${shown(gradcam)}, must be true or false.`);
  if (Array.isArray(version)) throw invalid('version is given several times, must be given once.');
  return { top: count, gradcam: gradcam === 'true', version };
}

/** @throws ServiceError for a model that does not classify images */
function imageInputOf({ model, spec: { image } }: ModelVersion): ImageInput {
  if (image) return image;
  throw invalid(
    `'${model}' does not say how an image becomes its input. If it classifies images, describe them as \`image\` in its settings.json.`,
  );
}

/** The image with the evidence for a class laid over it. @param explain asks the model for it */
async function heatOf(
  own: ModelVersion,
  values: Float32Array,
  { size, channels }: ImageInput,
  target: number,
  explain: () => Promise<OutputTensor>,
): Promise<object> {
  if (!own.spec.explains)
    throw new ServiceError(
      'unimplemented',
      `'${own.model}' cannot be looked into: Grad-CAM needs convolutions, and the package heddle-look.`,
    );
  const { gradCamPng } = await import('heddle-look');
  const [height, width] = size;
  const { shape, bytes, layer } = await explain();
  const [, rows, columns] = shape as [number, number, number];
  const map = new Float32Array(Uint8Array.from(bytes).buffer);
  const png = await gradCamPng({ channels, height, width, values }, { map, height: rows, width: columns });
  return { layer, target, image: `data:image/png;base64,${Buffer.from(png).toString('base64')}` };
}
