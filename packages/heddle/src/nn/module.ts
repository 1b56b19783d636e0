/** Modules: layers, and whatever is built from them. */
import {
  aBoolean,
  aFunction,
  type Rules,
  requireArgument,
  requireOptions,
  shown,
} from '../core/arguments.js';
import { ArgumentError, DTypeError, ShapeError } from '../core/errors.js';
import { formatShape, sameShape } from '../core/shape.js';
import { noGrad } from '../tensor/modes.js';
import { nameTensor } from '../tensor/names.js';
import { INSPECT, type InspectOptions, isInside } from '../tensor/print.js';
import { Setting } from '../tensor/setting.js';
import { type AnyTensor, requireTensor, Tensor } from '../tensor/tensor.js';
import { type ModelSummary, type SummaryInput, type SummaryOptions, summarize } from './summary.js';

/** Tensors by their dotted names, as PyTorch names them: `conv1.weight`, `layers.0.bias`. */
export type StateDict = Readonly<Record<string, AnyTensor>>;

/** Options of `loadStateDict`. */
export interface LoadStateOptions {
  /** Demand exactly this module's names (default true). */
  readonly strict?: boolean;
}

const LOAD: Rules<LoadStateOptions> = { strict: aBoolean };

/** Called before `forward` with its arguments; returns others, or nothing. */
export type ForwardPreHook = (module: Module, inputs: readonly unknown[]) => readonly unknown[] | undefined;
/** Called after `forward` with its arguments and its result; returns another result, or nothing. */
export type ForwardHook = (module: Module, inputs: readonly unknown[], output: unknown) => unknown;

/** Removes a hook. */
export interface HookHandle {
  /** After this the hook is no longer called. */
  readonly remove: () => void;
}

/**
 * The base of all layers. A module's state is what its own properties hold: a tensor made with `requiresGrad` is a
 * parameter, any other tensor a buffer, a module a child; arrays and plain objects of these are walked too. Private (#)
 * properties are not seen. A parameter that is frozen (`requiresGrad = false`) counts as a buffer until it is thawed.
 * @example
 * ```ts
 * import { nn, randn, relu, type Tensor } from 'heddle';
 *
 * class Perceptron extends nn.Module {
 *   hidden = new nn.Linear(4, 16);
 *   out = new nn.Linear(16, 3);
 *   forward(x: Tensor): Tensor {
 *     return this.out.forward(relu(this.hidden.forward(x)));
 *   }
 * }
 * const model = new Perceptron();
 * console.log(model.forward(randn([8, 4])).shape, model.parameters().length); // → [ 8, 3 ] 4
 * ```
 */
export abstract class Module {
  readonly #training = new Setting(true);

  /** Whether layers such as Dropout and BatchNorm2d behave as in training; set by `train()` and `eval()`. */
  get training(): boolean {
    return this.#training.value;
  }

  /** @throws ArgumentError for what is neither true nor false */
  set training(mode: boolean) {
    requireArgument('training', 'the value', mode, aBoolean);
    this.#training.value = mode;
  }

  readonly #hooks = new Hooks(this);

  /** Computes the module's output. Most modules take a tensor and return one (a `Layer`); other arguments and results are fine. */
  abstract forward(...inputs: never[]): unknown;

  /** Named things that are state: own properties, unless a module says otherwise. */
  protected state(): Iterable<readonly [string, unknown]> {
    return Object.entries(this);
  }

  /** This module and all below it, each once, with their dotted names (this one's is ''). */
  namedModules(): Generator<[string, Module]> {
    return this.#modules('', new Set());
  }

  *#modules(prefix: string, seen: Set<Module>): Generator<[string, Module]> {
    if (seen.has(this)) return;
    seen.add(this);
    yield [prefix, this];
    for (const [name, value] of flattened(this.state())) {
      if (value instanceof Module) yield* value.#modules(join(prefix, name), seen);
    }
  }

  *#namedTensors(): Generator<[string, Tensor]> {
    const seen = new Set<Tensor>();
    for (const [prefix, module] of this.namedModules()) {
      for (const [name, value] of flattened(module.state())) {
        if (!(value instanceof Tensor) || seen.has(value)) continue;
        seen.add(value);
        const path = join(prefix, name);
        nameTensor(value, path);
        yield [path, value];
      }
    }
  }

  /** The parameters with their names, each tensor once. */
  *namedParameters(): Generator<[string, Tensor]> {
    for (const entry of this.#namedTensors()) if (entry[1].requiresGrad) yield entry;
  }

  /** The tensors to train. */
  parameters(): Tensor[] {
    return [...this.namedParameters()].map(([, tensor]) => tensor);
  }

  /** The tensors that are kept but not trained, such as running statistics, with their names. */
  *namedBuffers(): Generator<[string, Tensor]> {
    for (const entry of this.#namedTensors()) if (!entry[1].requiresGrad) yield entry;
  }

  /** The tensors that are kept but not trained. */
  buffers(): Tensor[] {
    return [...this.namedBuffers()].map(([, tensor]) => tensor);
  }

  /** All parameters and buffers by name: the tensors themselves, not copies. */
  stateDict(): StateDict {
    return Object.fromEntries(this.#namedTensors());
  }

  /**
   * Take over values by name. Nothing is changed if anything does not fit.
   * @throws ArgumentError for missing or unexpected names, ShapeError, DTypeError
   */
  loadStateDict(state: StateDict, options: LoadStateOptions = {}): void {
    requireState('loadStateDict', state);
    requireOptions('loadStateDict', options, LOAD);
    const own = this.stateDict();
    if (options.strict ?? true) checkNames(this.constructor.name, Object.keys(own), Object.keys(state));
    const fitting = Object.entries(own).flatMap(([name, to]) => {
      const from = Object.hasOwn(state, name) ? state[name] : undefined;
      if (!from) return [];
      checkFits(name, to, from);
      return [[to, from] as const];
    });
    noGrad(() => {
      for (const [to, from] of fitting) to.assign(from.detach());
    });
  }

  /** Set `training` here and below. */
  train(mode = true): this {
    requireArgument('train', 'mode', mode, aBoolean);
    for (const [, module] of this.namedModules()) module.training = mode;
    return this;
  }

  /** The same as `train(false)`. */
  eval(): this {
    return this.train(false);
  }

  /** Clear the gradients of all parameters. */
  zeroGrad(): void {
    for (const parameter of this.parameters()) parameter.grad = undefined;
  }

  /**
   * Call `hook` after each `forward` of this module, with the module, the arguments and the result; what it returns, unless
   * undefined, is the result instead. Within `jit` it is called when the function is traced.
   * @throws ArgumentError unless it is a function
   */
  registerForwardHook(hook: ForwardHook): HookHandle {
    return this.#hooks.after(hook);
  }

  /** Call `hook` before each `forward`, with the module and the arguments; it may return others. @throws ArgumentError */
  registerForwardPreHook(hook: ForwardPreHook): HookHandle {
    return this.#hooks.before(hook);
  }

  /**
   * The layers in the order in which they are called, with the shapes of their outputs, their parameters, and the work and
   * memory of a forward pass. `forward` is traced in evaluation mode: nothing is computed, and the model stays as it is.
   * @param input describes the input of `forward`: the shape of one example of f32, to which the batch is added in front; a tensor, with
   *   its batch, for inputs of another dtype; a record of these; a list of them is several arguments
   * @example console.log(model.summary([1, 28, 28]))
   * @example model.summary([zeros([1, 128], { dtype: i32 }), [64]], { batchSize: 1 })
   * @throws ArgumentError, and what `forward` throws for such an input
   */
  summary(input: SummaryInput | readonly SummaryInput[], options: SummaryOptions = {}): ModelSummary {
    return summarize(this, input, options);
  }

  /** The text that `console.log` shows: the layers, the shapes of their parameters, and their settings. */
  [INSPECT](depth: number | null, options: InspectOptions): string {
    const count = this.parameters().reduce((n, p) => n + p.size, 0);
    if (isInside(depth, options)) return `${this.constructor.name}(${count} parameters)`;
    return `${this.#describe('', [])}, ${count} parameters`;
  }

  #describe(indent: string, above: readonly Module[]): string {
    const own: string[] = [];
    const below: string[] = [];
    const path = [...above, this];
    for (const [name, value] of flattened(this.state())) {
      if (value instanceof Tensor) own.push(`${name} ${formatShape(value.shape)}`);
      if (!(value instanceof Module)) continue;
      const text = path.includes(value) ? '…' : value.#describe(`${indent}  `, path);
      below.push(`\n${indent}  (${name}): ${text}`);
    }
    own.push(...settingsOf(this));
    if (below.length === 0) return `${this.constructor.name}(${own.join(', ')})`;
    const lines = own.map((text) => `\n${indent}  ${text}`);
    return `${this.constructor.name}(${[...lines, ...below].join('')}\n${indent})`;
  }
}

/** Numbers, texts, switches and lists of numbers, also those of options. */
function settingsOf(properties: object): string[] {
  return Object.entries(properties).flatMap(([name, value]: [string, unknown]) => {
    if (typeof value === 'function') return [];
    if (Array.isArray(value))
      return value.every((v) => typeof v === 'number') ? [`${name}: [${value.join(', ')}]`] : [];
    if (typeof value !== 'object') return value === undefined ? [] : [`${name}: ${String(value)}`];
    return value !== null && isPlain(value) ? settingsOf(value) : [];
  });
}

/** A module of one tensor to one tensor: what `Sequential`, `fit` and `evaluate` take. */
export interface Layer extends Module {
  /** Computes the layer's output. */
  forward(x: Tensor): Tensor;
}

/** @throws ArgumentError unless it is a record of tensors */
export function requireState(op: string, state: unknown): asserts state is StateDict {
  if (typeof state !== 'object' || state === null || Array.isArray(state) || state instanceof Module)
    throw new ArgumentError(
      `[${op}] the state is ${shown(state)}, must be an object of tensors by name, such as model.stateDict() gives.`,
    );
  for (const [name, value] of Object.entries(state)) requireTensor(op, name, value);
}

const join = (prefix: string, name: string): string => (prefix ? `${prefix}.${name}` : name);

/** What may be state: entries with arrays and plain objects opened up, `layers: [a, b]` as `layers.0: a`, `layers.1: b`. */
function* flattened(
  entries: Iterable<readonly [string, unknown]>,
  seen: Set<object> = new Set(),
): Generator<[string, object]> {
  for (const [name, value] of entries) {
    if (typeof value !== 'object' || value === null) continue;
    if (!isPlain(value)) yield [name, value];
    else if (!seen.has(value)) {
      seen.add(value);
      for (const key of Object.keys(value)) {
        const inner = (value as Readonly<Record<string, unknown>>)[key];
        if (typeof inner === 'object' && inner !== null) yield* flattened([[`${name}.${key}`, inner]], seen);
      }
    }
  }
}

/** Whether it is an array, or an object made by `{ … }`. */
const isPlain = (value: object): boolean =>
  Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype;

function checkNames(module: string, own: readonly string[], given: readonly string[]): void {
  const missing = own.filter((name) => !given.includes(name));
  const unexpected = given.filter((name) => !own.includes(name));
  if (missing.length === 0 && unexpected.length === 0) return;
  const say = (what: string, names: readonly string[]): string =>
    names.length > 0 ? ` ${what}: ${names.join(', ')}.` : '';
  throw new ArgumentError(
    `[loadStateDict] the names do not match those of ${module}.${say('Missing', missing)}` +
      `${say('Unexpected', unexpected)} Load what fits with { strict: false }.`,
  );
}

function checkFits(name: string, to: AnyTensor, from: AnyTensor): void {
  if (!sameShape(to.shape, from.shape))
    throw new ShapeError(
      `[loadStateDict] shapes of ${name} differ: the model has ${formatShape(to.shape)}, the state ` +
        `${formatShape(from.shape)}. Build the model with the sizes it was saved with.`,
    );
  if (to.dtype !== from.dtype)
    throw new DTypeError(
      `[loadStateDict] dtypes of ${name} differ: the model has ${to.dtype.name}, the state ${from.dtype.name}. ` +
        `Convert with .cast(${to.dtype.name}).`,
    );
}

/** The hooks of one module. `forward` is the module's own while there are none. */
class Hooks {
  readonly #module: Module;
  readonly #before: ForwardPreHook[] = [];
  readonly #after: ForwardHook[] = [];
  #own: PropertyDescriptor | undefined;

  constructor(module: Module) {
    this.#module = module;
  }

  before(hook: ForwardPreHook): HookHandle {
    return this.#add(this.#before, hook, 'registerForwardPreHook');
  }

  after(hook: ForwardHook): HookHandle {
    return this.#add(this.#after, hook, 'registerForwardHook');
  }

  #add<H>(list: H[], hook: H, op: string): HookHandle {
    requireArgument(
      op,
      'hook',
      hook,
      aFunction,
      'Write module.registerForwardHook((module, inputs, output) => …).',
    );
    if (this.#count === 0) this.#wrap();
    list.push(hook);
    return {
      remove: () => {
        const at = list.indexOf(hook);
        if (at < 0) return;
        list.splice(at, 1);
        if (this.#count === 0) this.#unwrap();
      },
    };
  }

  get #count(): number {
    return this.#before.length + this.#after.length;
  }

  #wrap(): void {
    const module = this.#module;
    const forward = module.forward as (...inputs: unknown[]) => unknown;
    this.#own = Object.getOwnPropertyDescriptor(module, 'forward');
    const hooked = (...given: unknown[]): unknown => {
      let inputs: readonly unknown[] = given;
      for (const hook of [...this.#before]) inputs = hook(module, inputs) ?? inputs;
      let output = forward.apply(module, [...inputs]);
      for (const hook of [...this.#after]) output = hook(module, inputs, output) ?? output;
      return output;
    };
    Object.defineProperty(module, 'forward', { value: hooked, configurable: true, writable: true });
  }

  #unwrap(): void {
    if (this.#own) Object.defineProperty(this.#module, 'forward', this.#own);
    else Reflect.deleteProperty(this.#module, 'forward');
  }
}
