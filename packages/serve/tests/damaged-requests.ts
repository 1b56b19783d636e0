/** Requests for inference that were right, and were then damaged. */
import fc from 'fast-check';

/** The body of a request to a model of points, and its header Inference-Header-Content-Length, if it has one. */
export interface RawRequest {
  readonly body: Uint8Array;
  readonly headerLength: string | undefined;
}

const odd = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    '',
    -1,
    0,
    2 ** 31,
    2 ** 53,
    1e308,
    true,
    [],
    {},
    'FP32',
    'BYTES',
    '__proto__',
    [[[[]]]],
    [-1, 2],
  ),
  fc.jsonValue({ maxDepth: 3 }),
);

/** A JSON request in which some fields are something else, or are missing. */
const json = fc
  .record({
    rows: fc.integer({ min: 0, max: 10 }),
    changes: fc.dictionary(
      fc.constantFrom('name', 'datatype', 'shape', 'data', 'parameters', 'more', 'constructor'),
      odd,
      { maxKeys: 2 },
    ),
    outer: fc.dictionary(fc.constantFrom('id', 'inputs', 'outputs', 'parameters', 'toString'), odd, {
      maxKeys: 1,
    }),
    size: fc.option(
      fc.oneof(fc.integer({ min: -8, max: 100 }), fc.constantFrom(2 ** 40, Number.MAX_SAFE_INTEGER)),
      {
        nil: undefined,
      },
    ),
  })
  .map(({ rows, changes, outer, size }) => {
    const input = { name: 'input', datatype: 'FP32', shape: [rows, 2] };
    const elements =
      size === undefined ? { data: Array(2 * rows).fill(0.5) } : { parameters: { binary_data_size: size } };
    return { text: JSON.stringify({ inputs: [{ ...input, ...elements, ...changes }], ...outer }), size };
  });

/** Whole requests, with bytes cut off, added or changed at some places. */
export const damagedRequest: fc.Arbitrary<RawRequest> = fc
  .record({
    json,
    tail: fc.uint8Array({ maxLength: 100 }),
    isExact: fc.boolean(),
    length: fc.option(
      fc.oneof(
        fc.string({ maxLength: 6 }).filter((text) => /^[\x21-\x7e]*$/.test(text)),
        fc.integer().map(String),
      ),
      { nil: undefined },
    ),
    cut: fc.option(fc.nat({ max: 200 }), { nil: undefined, freq: 3 }),
    flips: fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { maxLength: 3 }),
    isFlipped: fc.boolean(),
  })
  .map(({ json: { text, size }, tail, isExact, length, cut, flips, isFlipped }) => {
    const head = Buffer.from(text);
    const binary =
      isExact && size !== undefined && size >= 0 && size < 1000 ? Buffer.alloc(size, 1) : Buffer.from(tail);
    const whole = Buffer.concat([head, size === undefined && isExact ? Buffer.alloc(0) : binary]);
    const body = Uint8Array.from(cut === undefined ? whole : whole.subarray(0, cut));
    if (isFlipped) for (const [at, value] of flips) if (body.length > 0) body[at % body.length] = value;
    return { body, headerLength: size === undefined ? length : (length ?? String(head.length)) };
  });

/** What a request that is wrong may be answered with. */
export const REFUSED_STATUS: ReadonlySet<number> = new Set([200, 400, 404, 413, 429]);

/** Bytes of a gRPC message, damaged. @param whole a right one */
export const damagedMessage = (whole: Uint8Array): fc.Arbitrary<Uint8Array> =>
  fc
    .record({
      flips: fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { minLength: 1, maxLength: 6 }),
      cut: fc.option(fc.nat({ max: whole.length }), { nil: undefined }),
      more: fc.uint8Array({ maxLength: 20 }),
    })
    .map(({ flips, cut, more }) => {
      const bytes = Buffer.concat([cut === undefined ? whole : whole.subarray(0, cut), more]);
      for (const [at, value] of flips) if (bytes.length > 0) bytes[at % bytes.length] = value;
      return bytes;
    });
