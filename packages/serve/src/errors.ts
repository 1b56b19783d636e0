/** What a request is refused with: one kind of error, and its status in each protocol. */
import { HeddleError } from 'heddle';

/** The status of each kind: of HTTP, and of gRPC (google.rpc.Code). */
const STATUS = {
  /** The request says something that cannot be meant. */
  invalid: { http: 400, grpc: 3 },
  /** The API key is missing or unknown. */
  unauthorized: { http: 401, grpc: 16 },
  /** The API key does not allow it. */
  forbidden: { http: 403, grpc: 7 },
  'not-found': { http: 404, grpc: 5 },
  'too-large': { http: 413, grpc: 3 },
  'unsupported-media': { http: 415, grpc: 3 },
  /** A queue is full, or a client sends too much. */
  busy: { http: 429, grpc: 8 },
  /** The client is gone. */
  cancelled: { http: 499, grpc: 1 },
  internal: { http: 500, grpc: 13 },
  unimplemented: { http: 501, grpc: 12 },
  /** The model cannot answer now. */
  unavailable: { http: 503, grpc: 14 },
  /** The deadline has passed. */
  expired: { http: 504, grpc: 4 },
} as const satisfies Record<string, { readonly http: number; readonly grpc: number }>;

/** What kind of refusal it is. */
export type ServiceErrorKind = keyof typeof STATUS;

/** A request that is not answered, with what the client is told. */
export class ServiceError extends HeddleError {
  /** What kind of refusal it is. */
  readonly kind: ServiceErrorKind;
  /** Of `busy` and `unavailable`: after how many seconds a further attempt may succeed. */
  readonly retryAfter: number | undefined;

  constructor(
    kind: ServiceErrorKind,
    message: string,
    options: ErrorOptions & { readonly retryAfter?: number } = {},
  ) {
    super(`HEDDLE_SERVICE_${kind.toUpperCase().replace('-', '_')}`, message, options);
    this.kind = kind;
    this.retryAfter = options.retryAfter;
  }

  /** The status code of HTTP. */
  get httpStatus(): number {
    return STATUS[this.kind].http;
  }

  /** The status code of gRPC. */
  get grpcStatus(): number {
    return STATUS[this.kind].grpc;
  }
}

export const invalid = (message: string): ServiceError => new ServiceError('invalid', message);
