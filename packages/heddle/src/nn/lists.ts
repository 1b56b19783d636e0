/** Modules and parameters in lists and by name. Plain arrays and objects of them do the same; these are PyTorch's. */
import { aString, integerFrom, isPlainObject, requireArgument, shown } from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import { requireTensor } from '../tensor/checks.js';
import type { Tensor } from '../tensor/tensor.js';
import { Module } from './module.js';

/** Modules by their positions: `0.weight`, `1.weight` … */
export class ModuleList<M extends Module = Module> extends Module implements Iterable<M> {
  readonly #modules: readonly M[];

  /** @throws ArgumentError unless it is an array of modules */
  constructor(modules: readonly M[]) {
    super();
    requireEach('ModuleList', modules, requireModule);
    this.#modules = [...modules];
  }

  /** @throws ArgumentError always: take the elements one by one */
  forward(): never {
    throw withoutForward(this);
  }

  protected override state(): Iterable<readonly [string, unknown]> {
    return Object.entries(this.#modules);
  }

  /** How many there are. */
  get length(): number {
    return this.#modules.length;
  }

  /** The module at a position, from the back if it is negative; undefined if there is none. */
  at(position: number): M | undefined {
    requireArgument('ModuleList', 'position', position, integerFrom(Number.MIN_SAFE_INTEGER));
    return this.#modules.at(position);
  }

  [Symbol.iterator](): Iterator<M> {
    return this.#modules[Symbol.iterator]();
  }
}

/** Modules by name: `encoder.weight` … */
export class ModuleDict<M extends Module = Module> extends Module implements Iterable<readonly [string, M]> {
  readonly #modules: ReadonlyMap<string, M>;

  /** @throws ArgumentError unless it is an object of modules */
  constructor(modules: Readonly<Record<string, M>>) {
    super();
    requireNamed('ModuleDict', modules, requireModule);
    this.#modules = new Map(Object.entries(modules));
  }

  /** @throws ArgumentError always: take the elements one by one */
  forward(): never {
    throw withoutForward(this);
  }

  protected override state(): Iterable<readonly [string, unknown]> {
    return this.#modules;
  }

  /** The module of that name. @throws ArgumentError if there is none */
  get(name: string): M {
    return entryOf('ModuleDict', this.#modules, name);
  }

  /** Whether there is one of that name. */
  has(name: string): boolean {
    requireArgument('ModuleDict', 'name', name, aString);
    return this.#modules.has(name);
  }

  [Symbol.iterator](): Iterator<readonly [string, M]> {
    return this.#modules[Symbol.iterator]();
  }
}

/** Parameters by their positions: `0`, `1` … */
export class ParameterList extends Module implements Iterable<Tensor> {
  readonly #parameters: readonly Tensor[];

  /** @throws ArgumentError unless it is an array of tensors */
  constructor(parameters: readonly Tensor[]) {
    super();
    requireEach('ParameterList', parameters, requireParameter);
    this.#parameters = [...parameters];
  }

  /** @throws ArgumentError always: take the elements one by one */
  forward(): never {
    throw withoutForward(this);
  }

  protected override state(): Iterable<readonly [string, unknown]> {
    return Object.entries(this.#parameters);
  }

  /** How many there are. */
  get length(): number {
    return this.#parameters.length;
  }

  /** The parameter at a position, from the back if it is negative; undefined if there is none. */
  at(position: number): Tensor | undefined {
    requireArgument('ParameterList', 'position', position, integerFrom(Number.MIN_SAFE_INTEGER));
    return this.#parameters.at(position);
  }

  [Symbol.iterator](): Iterator<Tensor> {
    return this.#parameters[Symbol.iterator]();
  }
}

/** Parameters by name. */
export class ParameterDict extends Module implements Iterable<readonly [string, Tensor]> {
  readonly #parameters: ReadonlyMap<string, Tensor>;

  /** @throws ArgumentError unless it is an object of tensors */
  constructor(parameters: Readonly<Record<string, Tensor>>) {
    super();
    requireNamed('ParameterDict', parameters, requireParameter);
    this.#parameters = new Map(Object.entries(parameters));
  }

  /** @throws ArgumentError always: take the elements one by one */
  forward(): never {
    throw withoutForward(this);
  }

  protected override state(): Iterable<readonly [string, unknown]> {
    return this.#parameters;
  }

  /** The parameter of that name. @throws ArgumentError if there is none */
  get(name: string): Tensor {
    return entryOf('ParameterDict', this.#parameters, name);
  }

  /** Whether there is one of that name. */
  has(name: string): boolean {
    requireArgument('ParameterDict', 'name', name, aString);
    return this.#parameters.has(name);
  }

  [Symbol.iterator](): Iterator<readonly [string, Tensor]> {
    return this.#parameters[Symbol.iterator]();
  }
}

const withoutForward = ({ constructor: { name } }: Module): ArgumentError =>
  new ArgumentError(
    `[${name}] is a list and has no forward. Call that of each module: for (const layer of list) x = layer.forward(x).`,
  );

type Check = (op: string, name: string, value: unknown) => void;

const requireModule: Check = (op, name, value) => {
  if (!(value instanceof Module))
    throw new ArgumentError(`[${op}] ${name} is ${shown(value)}, must be a module.`);
};

const requireParameter: Check = (op, name, value) => {
  requireTensor(op, name, value);
};

function requireEach(op: string, list: unknown, check: Check): void {
  if (!Array.isArray(list)) throw new ArgumentError(`[${op}] got ${shown(list)}, must be an array.`);
  list.forEach((value, i) => {
    check(op, `element ${i}`, value);
  });
}

function requireNamed(op: string, record: unknown, check: Check): void {
  if (!isPlainObject(record)) throw new ArgumentError(`[${op}] got ${shown(record)}, must be an object.`);
  for (const [name, value] of Object.entries(record)) {
    if (name.includes('.')) throw new ArgumentError(`[${op}] the name '${name}' contains a dot.`);
    check(op, `'${name}'`, value);
  }
}

function entryOf<T>(op: string, entries: ReadonlyMap<string, T>, name: string): T {
  const found = entries.get(name);
  if (found !== undefined) return found;
  throw new ArgumentError(
    `[${op}] there is no '${String(name)}'. Expected one of: ${[...entries.keys()].join(', ') || 'none'}.`,
  );
}
