/** Who may ask, and how often: API keys and rates. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { FileError } from 'heddle';
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';
import { ServiceError } from './errors.js';

/** What a request has to show. */
export interface Credentials {
  /** The header Authorization, or the metadata of that name. */
  readonly authorization: string | undefined;
  /** The header X-API-Key, or the metadata of that name. */
  readonly apiKey: string | undefined;
  readonly address: string;
}

/** What a request wants to do. */
export type Permission = 'infer' | 'admin';

export class AccessControl {
  /** By their hashes: finding one takes the same time, however much of a guess is right. */
  readonly #keys: ReadonlyMap<string, Permission> | undefined;
  readonly #limiter: RateLimiterMemory | undefined;

  /** @throws FileError for a file of keys that cannot be read, or has none */
  constructor(file: string | undefined, rateLimit: number | undefined) {
    this.#keys = file === undefined ? undefined : readKeys(file);
    this.#limiter =
      rateLimit === undefined
        ? undefined
        : new RateLimiterMemory({ points: rateLimit, duration: 1, keyPrefix: '' });
  }

  /** Whether requests have to wait for `admit`: otherwise every one of them is welcome. */
  get isOpen(): boolean {
    return !this.#keys && !this.#limiter;
  }

  /** @throws ServiceError if the client may not do it, or not now */
  async admit({ authorization, apiKey, address }: Credentials, permission: Permission): Promise<void> {
    let client = address;
    if (this.#keys) {
      const key = apiKey ?? /^Bearer +(\S+) *$/i.exec(authorization ?? '')?.[1];
      if (key === undefined)
        throw new ServiceError(
          'unauthorized',
          'an API key is needed: Authorization: Bearer <key>, or X-API-Key: <key>.',
        );
      client = hashOf(key);
      const granted = this.#keys.get(client);
      if (!granted) throw new ServiceError('unauthorized', 'the API key is not known.');
      if (permission === 'admin' && granted !== 'admin')
        throw new ServiceError(
          'forbidden',
          'loading and unloading models needs the API key of an administrator.',
        );
    }
    try {
      await this.#limiter?.consume(client);
    } catch (error) {
      if (!(error instanceof RateLimiterRes)) throw error;
      throw new ServiceError('busy', `a client may send ${this.#limiter!.points} requests in a second.`, {
        retryAfter: Math.max(1, Math.ceil(error.msBeforeNext / 1000)),
      });
    }
  }
}

const hashOf = (key: string): string => createHash('sha256').update(key).digest('base64');

function readKeys(file: string): Map<string, Permission> {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new FileError(file, `the API keys cannot be read (${(error as Error).message}).`, { cause: error });
  }
  const keys = new Map<string, Permission>();
  for (const [i, line] of text.split('\n').entries()) {
    const words = line.replace(/#.*/, '').trim().split(/\s+/);
    const [key, role, ...more] = words;
    if (!key) continue;
    if ((role !== undefined && role !== 'admin') || more.length > 0)
      throw new FileError(file, `line ${i + 1} is not an API key, optionally followed by the word admin.`);
    if (key.length < 16)
      throw new FileError(file, `the API key in line ${i + 1} is shorter than 16 characters.`);
    keys.set(hashOf(key), role === 'admin' ? 'admin' : 'infer');
  }
  if (keys.size === 0) throw new FileError(file, 'has no API key. Write one in each line.');
  return keys;
}
