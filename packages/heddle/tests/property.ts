/**
 * Property tests. Each is a test of its own: by itself it runs the same cases every time, from one fixed seed;
 * under `npm run fuzz` (scripts/fuzz.mjs) it runs from other seeds until its time is up.
 */
import { writeSync } from 'node:fs';
import { test } from 'node:test';
import fc from 'fast-check';
import { testName } from './test-name.js';

const SEED = 1;

export interface PropertyOptions<T> {
  /** Cases of a plain test run (default 100). */
  readonly runs?: number;
  /** Cases that failed once; they run first, whatever the seed. */
  readonly found?: readonly T[];
  /** Its share of the fuzzer's time, next to those of the others (default 1). */
  readonly share?: number;
}

/** What the fuzzer asks of this process, as JSON in the environment variable FUZZ. */
interface Request {
  /** The property to run, by its name. Without one, the process only names those it has. */
  readonly only?: string;
  readonly seed?: number;
  /** Where fast-check found a failure from `seed`: that case alone. */
  readonly path?: string;
  readonly seconds?: number;
}
const request = process.env.FUZZ === undefined ? undefined : (JSON.parse(process.env.FUZZ) as Request);

/** Tell the fuzzer, at once, so that it knows which case never ends. */
const tell = (message: object): void => void writeSync(3, `${JSON.stringify(message)}\n`);

const FILE = testName(process.argv[1] ?? '');

/** A test that `check` accepts any values of `arbitraries`. */
export function property<T extends [unknown, ...unknown[]]>(
  name: string,
  arbitraries: { readonly [K in keyof T]: fc.Arbitrary<T[K]> },
  check: (...values: T) => void | Promise<void>,
  { runs = 100, found = [], share = 1 }: PropertyOptions<T> = {},
): void {
  const run = async (parameters: fc.Parameters<T>, before?: (values: T) => void): Promise<fc.RunDetails<T>> =>
    fc.check(
      fc.asyncProperty(...(arbitraries as unknown as [fc.Arbitrary<unknown>]), async (...values) => {
        before?.(values as unknown as T);
        await check(...(values as unknown as T));
      }) as unknown as fc.IAsyncProperty<T>,
      { ...parameters, includeErrorInReport: true },
    );
  if (!request) {
    test(name, async () => {
      const details = await run({ numRuns: runs + found.length, seed: SEED, examples: [...found] });
      if (details.failed) throw new Error(describe(name, details), { cause: details.errorInstance });
    });
  } else if (request.only === undefined) {
    tell({ property: name, share });
  } else if (request.only === name) {
    test(name, { only: true }, async () => {
      const { seed = SEED, path, seconds = 60 } = request;
      let count = 0;
      const details = await run(
        path === undefined
          ? { numRuns: 2 ** 31 - 1, seed, interruptAfterTimeLimit: 1000 * seconds }
          : { seed, path, endOnFailure: true },
        (values) => tell({ run: ++count, values: fc.stringify(values) }),
      );
      tell(
        details.counterexample
          ? { failed: fc.defaultReportMessage(details), seed, path: details.counterexamplePath }
          : { passed: details.numRuns },
      );
    });
  }
}

const describe = <T>(name: string, details: fc.RunDetails<T>): string =>
  `${fc.defaultReportMessage(details)}\nRepeat it with: npm run fuzz -- --only '${FILE}: ${name}' ` +
  `--seed ${details.seed} --path ${details.counterexamplePath}`;
