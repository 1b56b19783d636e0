/** How a service is set up: each option, its default, and what it must be. */
import {
  aBoolean,
  aString,
  integerFrom,
  listOf,
  oneOf,
  type Rules,
  requireOptions,
} from 'heddle/internal/core/arguments.js';

/** The levels of the log, from the least to the most that is said. */
export const LOG_LEVELS = ['silent', 'error', 'warn', 'info', 'debug'] as const;

/** Options of `serve`. */
export interface ServeOptions {
  /** The address to listen on. Default: 127.0.0.1, which other machines do not reach. */
  readonly host?: string;
  /** Of REST, and of the page; 0 takes a free one. Default: 8080. */
  readonly port?: number;
  /** Of gRPC; 0 takes a free one, null leaves gRPC out. Default: 8081. */
  readonly grpcPort?: number | null;
  /** The device of models whose settings name none: cpu, cuda, cuda:1… Default: the fastest there is. */
  readonly device?: string;
  /** The most bytes of a request. Default: 16 MiB. */
  readonly maxBodyBytes?: number;
  /** The most pixels of an image: one with more is refused before it is decoded. Default: 2^25. */
  readonly maxImagePixels?: number;
  /** How long a client may take to send a request, in milliseconds. Default: 30,000. */
  readonly receiveTimeoutMs?: number;
  /** How long requests that were accepted may take once the service is to end, in milliseconds. Default: 25,000. */
  readonly drainMs?: number;
  /** The most requests that a client may send in a second: an API key, or an address where there are no keys. Default: any. */
  readonly rateLimit?: number;
  /** A file of API keys, one in a line; behind one that may load and unload models: a space and `admin`. Default: none is needed. */
  readonly apiKeys?: string;
  /** The file of the certificate (PEM), and that of its key: REST and gRPC speak TLS. */
  readonly tlsCert?: string;
  /** The file of the certificate's key (PEM). */
  readonly tlsKey?: string;
  /** Addresses, or networks in CIDR notation, of proxies whose X-Forwarded-For is believed. Default: none. */
  readonly trustProxy?: readonly string[];
  /** What is logged, as JSON on the standard output. Default: info. */
  readonly logLevel?: (typeof LOG_LEVELS)[number];
  /** Whether a line is logged for every request. Default: false. */
  readonly logRequests?: boolean;
}

const PORT = integerFrom(0, 65_535);

const OPTIONS: Rules<ServeOptions> = {
  host: aString,
  port: PORT,
  grpcPort: { must: `${PORT.must}, or null`, holds: (v) => v === null || PORT.holds(v) },
  device: aString,
  maxBodyBytes: integerFrom(1, 2 ** 31),
  maxImagePixels: integerFrom(1, 2 ** 31),
  receiveTimeoutMs: integerFrom(100, 3_600_000),
  drainMs: integerFrom(0, 3_600_000),
  rateLimit: integerFrom(1),
  apiKeys: aString,
  tlsCert: aString,
  tlsKey: aString,
  trustProxy: listOf(aString),
  logLevel: oneOf(...LOG_LEVELS),
  logRequests: aBoolean,
};

/** What requests are held to. */
export interface ServiceLimits {
  readonly maxBodyBytes: number;
  readonly maxImagePixels: number;
  readonly receiveTimeoutMs: number;
}

/** Options with everything decided. */
export type DecidedOptions = ServiceLimits &
  Required<
    Pick<ServeOptions, 'host' | 'port' | 'grpcPort' | 'drainMs' | 'trustProxy' | 'logLevel' | 'logRequests'>
  > &
  Pick<ServeOptions, 'device' | 'rateLimit' | 'apiKeys' | 'tlsCert' | 'tlsKey'>;

/** @throws ArgumentError for an option that there is not, or a value that it cannot have */
export function decide(options: ServeOptions): DecidedOptions {
  requireOptions('serve', options, OPTIONS);
  return {
    ...{ host: '127.0.0.1', port: 8080, grpcPort: 8081 },
    ...{ maxBodyBytes: 2 ** 24, maxImagePixels: 2 ** 25, receiveTimeoutMs: 30_000, drainMs: 25_000 },
    ...{ trustProxy: [], logLevel: 'info', logRequests: false },
    ...options,
  };
}
