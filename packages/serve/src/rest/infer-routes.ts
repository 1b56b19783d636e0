/** Inference over REST. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { shown } from 'heddle/internal/core/arguments.js';
import type { OutputTensor, PendingAnswer } from '../batching/batcher.js';
import { invalid, ServiceError } from '../errors.js';
import { decodedImages, givesImages } from '../images/image-bytes.js';
import { checkInputs } from '../protocol/infer-request.js';
import { urgencyOf } from '../protocol/urgency.js';
import type { Service } from '../service.js';
import { formatInferAnswer, parseInferBody } from './infer-body.js';
import { type ModelParams, modelPaths } from './model-routes.js';

export function addInferRoutes(app: FastifyInstance, { repository, metrics, limits }: Service): void {
  const infer = async (
    request: FastifyRequest<{ Params: ModelParams; Body: Buffer | undefined }>,
    reply: FastifyReply,
  ): Promise<FastifyReply> => {
    const began = performance.now();
    const own = repository.find(request.params.model, request.params.version);
    let status = 500;
    try {
      const { headers } = request;
      requireIdentity(headers['content-encoding']);
      const asked = parseInferBody(
        request.body ?? Buffer.alloc(0),
        oneHeader(headers['inference-header-content-length']),
        own.spec,
      );
      const { priority, timeout } = asked.parameters;
      const timeoutMs = timeoutHeader(headers['x-request-timeout-ms']);
      const urgency = urgencyOf({ priority, timeout, timeoutMs }, own.settings.timeoutMs);
      const { maxBatchSize } = own.settings;
      const given = givesImages(asked.given, own.spec)
        ? await decodedImages(asked.given, own.spec, { maxBatchSize, maxImagePixels: limits.maxImagePixels })
        : asked.given;
      const inputs = checkInputs(own.spec, given, maxBatchSize);
      const results = await wantedBy(reply, own.submit(inputs, urgency));
      const { body, headerLength } = formatInferAnswer(own, asked, results);
      status = 200;
      if (headerLength === undefined) return reply.header('content-type', 'application/json').send(body);
      return reply
        .header('content-type', 'application/octet-stream')
        .header('inference-header-content-length', headerLength)
        .send(body);
    } catch (error) {
      if (error instanceof ServiceError) status = error.httpStatus;
      throw error;
    } finally {
      metrics.answered(own.model, own.version, 'rest', status, performance.now() - began);
    }
  };
  for (const path of modelPaths('/infer')) app.post(path, infer);
}

/** The outputs; what has not begun is not computed once the client is gone. */
export async function wantedBy(
  { raw }: FastifyReply,
  { outputs, cancel }: PendingAnswer,
): Promise<readonly OutputTensor[]> {
  const onClose = (): void => {
    if (!raw.writableFinished) cancel();
  };
  raw.once('close', onClose);
  try {
    return await outputs;
  } finally {
    raw.off('close', onClose);
  }
}

/** @throws ServiceError for a body that is compressed */
export function requireIdentity(encoding: string | undefined): void {
  if (encoding !== undefined && encoding !== 'identity')
    throw new ServiceError(
      'unsupported-media',
      `Content-Encoding is ${shown(encoding)}: bodies are taken uncompressed alone.`,
    );
}

/** Milliseconds of the header X-Request-Timeout-Ms. @throws ServiceError */
export function timeoutHeader(header: string | string[] | undefined): number | undefined {
  const text = oneHeader(header);
  if (text === undefined) return undefined;
  const value = /^\d{1,9}(\.\d{1,3})?$/.test(text) ? Number(text) : Number.NaN;
  if (value > 0) return value;
  throw invalid(`X-Request-Timeout-Ms is ${shown(text)}, must be a number of milliseconds above 0.`);
}

const oneHeader = (header: string | string[] | undefined): string | undefined =>
  Array.isArray(header) ? header.join(', ') : header;
