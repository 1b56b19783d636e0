/**
 * What public functions demand of their arguments. A rule says what a value must be; every refusal reads the same:
 * `[op] name is value, must be …`. Options objects are tables of rules: unknown names are refused, too.
 */
import { ArgumentError, type HeddleError } from './errors.js';

/** What a value must be. */
export interface Rule {
  /** Completes "must be …". */
  readonly must: string;
  /** Whether a value is allowed. */
  readonly holds: (value: unknown) => boolean;
  /** What is thrown otherwise; default ArgumentError. */
  readonly error?: new (
    message: string,
  ) => HeddleError;
  /** Of an option: it may not be left out. */
  readonly required?: true;
}

/** The rules of an options object, one for each of its names. */
export type Rules<Options> = { readonly [K in keyof Options]-?: Rule };

export const aBoolean: Rule = { must: 'true or false', holds: (v) => typeof v === 'boolean' };
export const aNumber: Rule = { must: 'a number', holds: (v) => typeof v === 'number' };
export const aFinite: Rule = { must: 'a finite number', holds: Number.isFinite };
export const aString: Rule = { must: 'a string', holds: (v) => typeof v === 'string' };
/** One that can be called: a class cannot. */
export const aFunction: Rule = { must: 'a function', holds: (v) => typeof v === 'function' && !isClass(v) };
const isClass = (f: unknown): boolean => /^class\b/.test(Function.prototype.toString.call(f));
/** Of numbers, as a typed array is. */
export const anArrayLike: Rule = {
  must: 'an array or a typed array of numbers',
  holds: (v) => (Array.isArray(v) ? v.every(isNumeric) : ArrayBuffer.isView(v) && 'length' in v),
};
const isNumeric = (v: unknown): boolean =>
  typeof v === 'number' || typeof v === 'bigint' || typeof v === 'boolean';
export const aList: Rule = { must: 'an array', holds: Array.isArray };

export const atLeast = (low: number): Rule => ({
  must: `a finite number ≥ ${low}`,
  holds: (v) => Number.isFinite(v) && (v as number) >= low,
});
export const above = (low: number): Rule => ({
  must: `a number greater than ${low}`,
  holds: (v) => typeof v === 'number' && v > low,
});
/** From `low` to `high`, both included. */
export const within = (low: number, high: number): Rule => ({
  must: `a number from ${low} to ${high}`,
  holds: (v) => typeof v === 'number' && v >= low && v <= high,
});
/** A fraction that stays below 1, such as what a moving mean keeps. */
export const belowOne: Rule = {
  must: 'at least 0 and less than 1',
  holds: (v) => typeof v === 'number' && v >= 0 && v < 1,
};
export const integerFrom = (low: number, high = Number.MAX_SAFE_INTEGER): Rule => ({
  must:
    low === Number.MIN_SAFE_INTEGER
      ? 'an integer'
      : high === Number.MAX_SAFE_INTEGER
        ? `an integer ≥ ${low}`
        : `an integer from ${low} to ${high}`,
  holds: (v) => Number.isSafeInteger(v) && (v as number) >= low && (v as number) <= high,
});
export const oneOf = (...choices: readonly string[]): Rule => ({
  must: listed(choices.map((c) => `'${c}'`)),
  holds: (v) => choices.includes(v as string),
});
export const listOf = (each: Rule): Rule => ({
  must: `an array, each element ${each.must}`,
  holds: (v) => Array.isArray(v) && v.every(each.holds),
});
/** @param must with its article: 'a Loader' */
export const instance = (type: abstract new (...args: never[]) => unknown, must: string): Rule => ({
  must,
  holds: (v) => v instanceof type,
});
/** A plain object whose values are all so. */
export const recordOf = (each: Rule, must: string): Rule => ({
  must,
  holds: (v) => isPlainObject(v) && Object.values(v).every(each.holds),
});
/** An object with these methods or properties, each of such a type. */
export const shaped = (must: string, members: Readonly<Record<string, Rule>>): Rule => ({
  must,
  holds: (v) =>
    typeof v === 'object' &&
    v !== null &&
    Object.entries(members).every(([name, rule]) => rule.holds((v as Record<string, unknown>)[name])),
});
export const required = (rule: Rule): Rule => ({ ...rule, required: true });

/** @throws ArgumentError unless the rule holds. @param hint a sentence that says what to do */
export function requireArgument(op: string, name: string, value: unknown, rule: Rule, hint?: string): void {
  if (rule.holds(value)) return;
  throw new (rule.error ?? ArgumentError)(
    `[${op}] ${name} is ${shown(value)}, must be ${rule.must}.${hint ? ` ${hint}` : ''}`,
  );
}

/** @throws ArgumentError unless `options` is an object made by `{ … }` */
export function requireObject(
  op: string,
  options: unknown,
  known: readonly string[],
): asserts options is Readonly<Record<string, unknown>> {
  if (!isPlainObject(options))
    throw new ArgumentError(
      `[${op}] options is ${shown(options)}, must be an object. Options: ${known.join(', ')}.`,
    );
}

/** @throws ArgumentError unless `options` is an object with none but the names of `rules`, and these hold */
export function requireOptions<Options>(op: string, options: Options, rules: Rules<Options>): void {
  requireObject(op, options, Object.keys(rules));
  const byName: Readonly<Record<string, Rule>> = rules;
  for (const name of Object.keys(options)) {
    const rule = Object.hasOwn(byName, name) ? byName[name] : undefined;
    const value = options[name];
    if (!rule) throw new ArgumentError(unknownName(op, 'option', name, Object.keys(rules)));
    if (value !== undefined) requireArgument(op, name, value, rule);
  }
  for (const name in byName)
    if (byName[name]!.required && options[name] === undefined)
      throw new ArgumentError(`[${op}] ${name} is missing, must be ${byName[name]!.must}.`);
}

/** Whether nobody has waited for it yet: a Promise, or what behaves like one. */
export const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function';

/** The text for a name that is none of `known`, with the nearest. @param kind 'option' */
export function unknownName(op: string, kind: string, name: string, known: readonly string[]): string {
  const near = nearest(name, known);
  const guess = near === undefined ? '' : ` Did you mean '${near}'?`;
  const plural = `${kind[0]!.toUpperCase()}${kind.slice(1)}s`;
  return `[${op}] unknown ${kind} '${name}'.${guess} ${plural}: ${known.join(', ') || 'none'}.`;
}

/** Whether it is an object made by `{ … }`, not of a class of its own. */
export const isPlainObject = (value: unknown): value is Record<string, unknown> => {
  if (typeof value !== 'object' || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  // An object of another realm (a test runner's) has that realm's Object.prototype.
  return prototype === null || Object.getPrototypeOf(prototype) === null;
};

/** The name that was probably meant: 'learningRate' is lr by its initials, 'weight_decay' weightDecay. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  const plain = (s: string): string => s.toLowerCase().replace(/[^a-z0-9]/g, '');
  const given = plain(name);
  const initials = name.replace(/(^.|[A-Z]|[_-].)|./g, '$1').toLowerCase();
  const near = known
    .map((k) => ({ name: k, distance: editDistance(given, plain(k)) }))
    .sort((a, b) => a.distance - b.distance)[0];
  // As many edits as there are letters make any word of any other.
  const most = Math.min(given.length - 1, Math.max(1, Math.floor(near ? near.name.length / 3 : 0)));
  if (near && near.distance <= most) return near.name;
  return known.find((k) => {
    const other = plain(k);
    return (
      other === initials.replace(/[_-]/g, '') ||
      (given.length > 2 && (given.startsWith(other) || other.startsWith(given)))
    );
  });
}

/** Insertions, deletions and substitutions between two words (Levenshtein 1966). */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let k = 1; k <= b.length; k++)
      next.push(Math.min(row[k]! + 1, next[k - 1]! + 1, row[k - 1]! + (a[i - 1] === b[k - 1] ? 0 : 1)));
    row = next;
  }
  return row[b.length]!;
}

const listed = (items: readonly string[]): string =>
  items.length < 2 ? (items[0] ?? 'nothing') : `${items.slice(0, -1).join(', ')} or ${items.at(-1)}`;

/** A value as messages show it: on one line, and short. */
export function shown(value: unknown, depth = 1): string {
  switch (typeof value) {
    case 'string':
      return value.length > 60 ? `'${value.slice(0, 57)}…'` : `'${value}'`;
    case 'bigint':
      return `${value}n`;
    case 'function':
      return `${isClass(value) ? 'the class' : 'the function'} ${value.name}`.trimEnd();
    case 'object':
      return value === null ? 'null' : shownObject(value, depth);
    case 'number':
      return Object.is(value, -0) ? '-0' : String(value);
    default:
      return String(value);
  }
}

const MOST_SHOWN = 6;

function shownObject(value: object, depth: number): string {
  if (Array.isArray(value)) {
    if (depth < 0) return '[…]';
    const items = value.slice(0, MOST_SHOWN).map((v) => shown(v, depth - 1));
    return `[${[...items, ...(value.length > MOST_SHOWN ? ['…'] : [])].join(', ')}]`;
  }
  if (ArrayBuffer.isView(value)) return `a ${value.constructor.name}`;
  if (isPlainObject(value)) {
    const names = Object.keys(value);
    if (names.length === 0) return '{}';
    if (depth < 0) return '{…}';
    const items = names.slice(0, MOST_SHOWN).map((name) => `${name}: ${shown(value[name], depth - 1)}`);
    return `{ ${[...items, ...(names.length > MOST_SHOWN ? ['…'] : [])].join(', ')} }`;
  }
  const { name } = value.constructor;
  const text = Object.hasOwn(value.constructor.prototype, 'toString') ? String(value.toString()) : undefined;
  return text !== undefined && text.length <= 60 ? text : `${/^[aeiou]/i.test(name) ? 'an' : 'a'} ${name}`;
}
