/** From a function to its syntax tree: `Function.prototype.toString`, parsed once per text. */
import { type ArrowFunctionExpression, type FunctionExpression, parseExpressionAt } from 'acorn';
import { KernelError, type Location } from '../../core/errors.js';
import { type Origin, originOf } from './capture-location.js';

export type FunctionNode = ArrowFunctionExpression | FunctionExpression;

/** A function's own text and tree. Offsets of `node` count from the start of `text`, plus `shift`. */
interface Parsed {
  readonly text: string;
  readonly node: FunctionNode;
  readonly shift: number;
}

/** A captured function: what it says and where it stands. */
export interface Captured extends Parsed {
  readonly origin: Origin;
  /** Of the nodes that something was made of, by where they begin: a loop that is unrolled comes to each many times. */
  readonly places: Map<number, SourcePlace>;
}

const parsed = new Map<string, Parsed>();
/** Of functions that kernels share, whose texts are long to look up. */
const ofFunctions = new WeakMap<object, Parsed>();

/**
 * The source of `fn`, which `subject` names in errors.
 * @throws KernelError if it has no source (native, bound), or is not a plain function
 */
export function capture(fn: (...args: never[]) => unknown, subject: string): Captured {
  if (typeof fn !== 'function')
    throw new KernelError(`${subject} must be a function or an arrow function, got ${String(fn)}.`);
  const text = ofFunctions.get(fn)?.text ?? Function.prototype.toString.call(fn);
  const origin = originOf(fn, text, subject);
  let known = ofFunctions.get(fn) ?? parsed.get(text);
  if (!known) {
    known = parseText(text, subject, origin);
    parsed.set(text, known);
  }
  ofFunctions.set(fn, known);
  return { ...known, origin, places: new Map() };
}

function parseText(text: string, subject: string, origin: Origin): Parsed {
  if (/\{\s*\[native code\]\s*\}\s*$/.test(text)) {
    throw new KernelError(
      `${subject} has no source: it is a native or bound function. Pass the function itself, not fn.bind(…).`,
    );
  }
  const method = `({${text}})`;
  for (const [source, shift] of [
    [text, 0],
    [method, 2],
  ] as const) {
    let tree: ReturnType<typeof parseExpressionAt>;
    try {
      tree = parseExpressionAt(source, 0, { ecmaVersion: 'latest' });
    } catch {
      continue;
    }
    const property = tree.type === 'ObjectExpression' ? tree.properties[0] : undefined;
    const node = property?.type === 'Property' ? property.value : tree;
    if (node.type !== 'ArrowFunctionExpression' && node.type !== 'FunctionExpression') continue;
    if (node.async || node.generator) {
      throw new KernelError(
        `${subject} is ${node.async ? 'an async' : 'a generator'} function: a kernel must be a plain function.`,
        new SourcePlace(origin, 0),
      );
    }
    return { text, node, shift };
  }
  throw new KernelError(`${subject} must be a function or an arrow function.`, new SourcePlace(origin, 0));
}

/** A location that is only worked out when somebody looks: nearly all of them are never seen. */
export class SourcePlace implements Location {
  readonly #origin: Origin;
  readonly #offset: number;
  #known: Location | undefined;

  /** @param offset characters from the start of the function's text */
  constructor(origin: Origin, offset: number) {
    this.#origin = origin;
    this.#offset = offset;
  }

  get #location(): Location {
    this.#known ??= this.#origin.locate(this.#offset);
    return this.#known;
  }

  get file(): string {
    return this.#location.file;
  }
  get line(): number {
    return this.#location.line;
  }
  get column(): number {
    return this.#location.column;
  }
  get text(): string {
    return this.#location.text;
  }
}
