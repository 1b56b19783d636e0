/** The gRPC side: the service GRPCInferenceService of the Open Inference Protocol. */
import { readFileSync } from 'node:fs';
import { create, type DescMessage, fromBinary, type MessageShape, toBinary } from '@bufbuild/protobuf';
import {
  type handleUnaryCall,
  Metadata,
  type MethodDefinition,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
} from '@grpc/grpc-js';
import type { OutputTensor, PendingAnswer } from '../batching/batcher.js';
import { invalid, ServiceError } from '../errors.js';
import { decodedImages, givesImages } from '../images/image-bytes.js';
import type { DecidedOptions } from '../options.js';
import { packageVersion } from '../package-version.js';
import { checkInputs } from '../protocol/infer-request.js';
import { urgencyOf } from '../protocol/urgency.js';
import type { ServiceLog } from '../repository/model-version.js';
import { EXTENSIONS, SERVER_NAME, type Service } from '../service.js';
import {
  GRPCInferenceService,
  ModelMetadataResponseSchema,
  ModelReadyResponseSchema,
  ServerLiveResponseSchema,
  ServerMetadataResponseSchema,
  ServerReadyResponseSchema,
} from './generated/open_inference_grpc_pb.js';
import { inferResponse, parameterOf, readInferRequest } from './infer-messages.js';
import { receiveTimeout } from './receive-timeout.js';

type Methods = typeof GRPCInferenceService.method;
/** The call whose requests are not read yet: what is wrong with them is for the handler to say. */
type Call = ServerUnaryCall<Buffer, Uint8Array>;
type Handlers = {
  readonly [M in keyof Methods]: (
    request: MessageShape<Methods[M]['input']>,
    call: Call,
  ) => MessageShape<Methods[M]['output']> | Promise<MessageShape<Methods[M]['output']>>;
};

/** Methods that probes call: no key is asked for. */
const FOR_ANYONE: ReadonlySet<string> = new Set(['serverLive', 'serverReady']);

/** A gRPC server for a service. It does not listen yet. */
export function createGrpcServer(
  service: Service,
  { maxBodyBytes, receiveTimeoutMs }: DecidedOptions,
  log: ServiceLog,
): Server {
  const server = new Server({
    interceptors: [receiveTimeout(receiveTimeoutMs)],
    'grpc.max_receive_message_length': maxBodyBytes,
    'grpc.max_send_message_length': -1,
    'grpc.max_concurrent_streams': 1000,
    // Nobody can ask for what channelz counts.
    'grpc.enable_channelz': 0,
    // A client that vanishes without closing its connection is noticed.
    'grpc.keepalive_time_ms': 60_000,
    'grpc.keepalive_timeout_ms': 20_000,
  });
  const handlers = handlersOf(service);
  const definition: Record<string, MethodDefinition<Buffer, Uint8Array>> = {};
  const implementation: Record<string, handleUnaryCall<Buffer, Uint8Array>> = {};
  for (const method of GRPCInferenceService.methods) {
    const own = method.localName as keyof Methods;
    definition[own] = {
      path: `/${GRPCInferenceService.typeName}/${method.name}`,
      requestStream: false,
      responseStream: false,
      requestSerialize: asBuffer,
      requestDeserialize: asIs,
      responseSerialize: asBuffer,
      responseDeserialize: asIs,
    };
    const handle = handlers[own] as (request: unknown, call: Call) => unknown;
    implementation[own] = (call, callback) => {
      const answer = async (): Promise<Uint8Array> => {
        if (!service.access.isOpen && !FOR_ANYONE.has(own))
          await service.access.admit(credentialsOf(call), 'infer');
        const response = await handle(parse(method.input, call.request), call);
        return toBinary(method.output, response as MessageShape<typeof method.output>);
      };
      answer().then(
        (bytes) => callback(null, bytes),
        (error: unknown) => callback(statusOf(error, log)),
      );
    };
  }
  server.addService(definition, implementation);
  return server;
}

/** @returns the port @throws Error if it is taken */
export function listen(server: Server, { host, grpcPort, tlsCert, tlsKey }: DecidedOptions): Promise<number> {
  const credentials =
    tlsCert === undefined || tlsKey === undefined
      ? ServerCredentials.createInsecure()
      : ServerCredentials.createSsl(null, [
          { cert_chain: readFileSync(tlsCert), private_key: readFileSync(tlsKey) },
        ]);
  const address = `${host.includes(':') ? `[${host}]` : host}:${grpcPort}`;
  return new Promise((resolve, reject) =>
    server.bindAsync(address, credentials, (error, port) => (error ? reject(error) : resolve(port))),
  );
}

function handlersOf({ repository, metrics, isReady, limits }: Service): Handlers {
  return {
    serverLive: () => create(ServerLiveResponseSchema, { live: true }),
    serverReady: () => create(ServerReadyResponseSchema, { ready: isReady() }),
    modelReady: ({ name, version }) =>
      create(ModelReadyResponseSchema, { ready: repository.find(name, version).isReady }),
    serverMetadata: () =>
      create(ServerMetadataResponseSchema, {
        name: SERVER_NAME,
        version: packageVersion(),
        extensions: [...EXTENSIONS],
      }),
    modelMetadata: ({ name, version }) => {
      const { model, spec } = repository.find(name, version);
      const described = ({ name, datatype, shape }: (typeof spec.inputs)[number]) => ({
        ...{ name, datatype, shape: shape.map(BigInt) },
      });
      return create(ModelMetadataResponseSchema, {
        ...{ name: model, versions: [...repository.loadedVersions(model)], platform: spec.platform },
        ...{ inputs: spec.inputs.map(described), outputs: spec.outputs.map(described) },
      });
    },
    modelInfer: async (request, call) => {
      const began = performance.now();
      const own = repository.find(request.modelName, request.modelVersion);
      let status = 13;
      try {
        const { given, outputs } = readInferRequest(request, own.spec);
        const { maxBatchSize } = own.settings;
        const decoded = givesImages(given, own.spec)
          ? await decodedImages(given, own.spec, { maxBatchSize, maxImagePixels: limits.maxImagePixels })
          : given;
        const inputs = checkInputs(own.spec, decoded, maxBatchSize);
        const urgency = urgencyOf(
          {
            priority: parameterOf(request.parameters, 'priority'),
            timeout: parameterOf(request.parameters, 'timeout'),
            timeoutMs: millisecondsLeft(call),
          },
          own.settings.timeoutMs,
        );
        const results = await wantedBy(call, own.submit(inputs, urgency));
        status = 0;
        return inferResponse(own, request, outputs, results);
      } catch (error) {
        if (error instanceof ServiceError) status = error.grpcStatus;
        throw error;
      } finally {
        metrics.answered(own.model, own.version, 'grpc', status, performance.now() - began);
      }
    },
  };
}

/** The outputs; what has not begun is not computed once the call is cancelled. */
async function wantedBy(call: Call, { outputs, cancel }: PendingAnswer): Promise<readonly OutputTensor[]> {
  call.once('cancelled', cancel);
  try {
    return await outputs;
  } finally {
    call.off('cancelled', cancel);
  }
}

/** Until the deadline of a call; undefined if it has none. */
function millisecondsLeft(call: Call): number | undefined {
  const deadline = call.getDeadline();
  const left = (deadline instanceof Date ? deadline.getTime() : deadline) - Date.now();
  return Number.isFinite(left) ? Math.max(left, 0) : undefined;
}

function credentialsOf(call: Call): Parameters<Service['access']['admit']>[0] {
  const text = (name: string): string | undefined => call.metadata.get(name)[0]?.toString();
  return {
    ...{ authorization: text('authorization'), apiKey: text('x-api-key') },
    address: call.getPeer().replace(/:\d+$/, ''),
  };
}

/** @throws ServiceError for bytes that are not such a message */
function parse<D extends DescMessage>(schema: D, bytes: Buffer): MessageShape<D> {
  try {
    return fromBinary(schema, bytes);
  } catch (error) {
    throw invalid(`the message is not a ${schema.name} (${(error as Error).message}).`);
  }
}

/** What a client is told of an error. */
function statusOf(error: unknown, log: ServiceLog): { code: number; details: string; metadata?: Metadata } {
  if (!(error instanceof ServiceError)) {
    log.error({ err: error }, 'a request failed');
    return { code: 13, details: 'the service failed; its log says why.' };
  }
  const { grpcStatus: code, message: details, retryAfter, kind } = error;
  if (kind === 'internal') log.error({ error: details }, 'a request failed');
  if (retryAfter === undefined) return { code, details };
  const metadata = new Metadata();
  metadata.set('retry-after', String(retryAfter));
  return { code, details, metadata };
}

const asIs = (bytes: Buffer): Buffer => bytes;
const asBuffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
