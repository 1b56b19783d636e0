/** What all optimizers share: groups of parameters, a learning rate on the device, state that is saved. */
import {
  aBoolean,
  aNumber,
  atLeast,
  belowOne,
  type Rule,
  type Rules,
  requireArgument,
  requireObject,
  requireOptions,
  shown,
} from '../core/arguments.js';
import { type DType, f32, f64 } from '../core/dtype.js';
import { ArgumentError } from '../core/errors.js';
import { formatShape, type Shape } from '../core/shape.js';
import { type AnyTensor, aTensor, requireTensor } from '../tensor/checks.js';
import { storedZeros, tensor } from '../tensor/create.js';
import { currentTrace, isFromBefore, noGrad, noteUseOfGradients, realize } from '../tensor/modes.js';
import { labelOf } from '../tensor/names.js';
import { Tensor } from '../tensor/tensor.js';
import type { Sharding, ShardOptions, World } from '../tensor/world.js';
import { assignAll, requireMatch, type State } from './state.js';

/** Parameters with settings of their own; what a group leaves out is the optimizer's. */
export type GroupOptions<Settings> = Partial<Settings> & { readonly params: Iterable<Tensor> };

/** The tensors to train, or groups of them. */
export type Trainable<Settings> = Iterable<Tensor> | readonly GroupOptions<Settings>[];

/** Settings that every optimizer has. */
export interface BaseSettings {
  /** Learning rate. */
  readonly lr: number;
}

/** The rule of `lr`. */
export const LEARNING_RATE = atLeast(0);

/** The rule of two shares that are kept from step to step. */
export const BETAS: Rule = {
  must: 'two numbers, each at least 0 and less than 1',
  holds: (v) => Array.isArray(v) && v.length === 2 && v.every(belowOne.holds),
};

/** A group as the optimizer works with it. */
export class ParameterGroup<Settings extends BaseSettings> {
  /** The parameters of the group, all of one dtype. */
  readonly params: readonly Tensor[];
  /** Their settings. */
  readonly settings: Settings;
  /** Of what is computed from the settings, on the device: f64 if a parameter is, else f32. */
  readonly dtype: DType<'f32' | 'f64'>;
  /** The learning rate on the device: changing it recompiles nothing. */
  readonly rate: Tensor;
  #lr: number;

  constructor(params: readonly Tensor[], settings: Settings) {
    this.params = params;
    this.settings = settings;
    this.#lr = settings.lr;
    this.dtype = params.some((p) => p.dtype === f64) ? f64 : f32;
    this.rate = tensor(settings.lr, { dtype: this.dtype });
  }

  get lr(): number {
    return this.#lr;
  }

  /** @throws ArgumentError unless a number ≥ 0 */
  set lr(value: number) {
    requireArgument('optim', 'lr', value, LEARNING_RATE);
    this.#lr = value;
    this.rate.write([value]);
  }
}

/** Options of `step`. */
export interface StepOptions {
  /** A bool scalar: where it is false, parameters and state stay as they are. */
  readonly when?: Tensor<Shape, 'bool'>;
}

/** Options of an optimizer's `step`. */
export interface OptimizerStepOptions extends StepOptions {
  /**
   * Of an optimizer whose state is divided among ranks (`distributed.shardOptimizer`): average the gradients in this step, by dividing their
   * sums over all ranks by this, a number or a scalar, as the examples of all ranks. Default: the number of ranks, if each step
   * averages.
   */
  readonly divisor?: number | Tensor;
  /** Where the step averages: whether the batches of all ranks have the same shapes. See `averageGradients`. Default: false. */
  readonly equalBatches?: boolean;
}

const STEP: Rules<OptimizerStepOptions> = {
  when: aTensor,
  divisor: { must: 'a number or a tensor', holds: (v) => aNumber.holds(v) || aTensor.holds(v) },
  equalBatches: aBoolean,
};

/** A tensor that a step changes, and what it stands for until then. */
interface Change {
  readonly tensor: Tensor;
  readonly before: Tensor['ownNode'];
}

/** A step of one group. */
interface GroupStep {
  /** The parameters that have a gradient. */
  readonly moving: readonly Tensor[];
  /** Changes one of them, and its state. */
  readonly update: (parameter: Tensor) => void;
  /** Changes the group's own state. */
  readonly end: () => void;
}

/** The base of all optimizers: what it is to update parameters by a rule. */
export abstract class Optimizer<Settings extends BaseSettings> {
  /** The parameters, in groups of the same settings. */
  readonly groups: readonly ParameterGroup<Settings>[];
  readonly #states = new Map<Tensor, State>();
  readonly #shared = new Map<ParameterGroup<Settings>, State>();
  #sharding: Sharding | undefined;

  /**
   * @param settings those of groups that leave them out
   * @param rules what each setting must be
   * @throws ArgumentError for settings that are unknown or out of range, no parameters, or a parameter in two places
   */
  constructor(params: Trainable<Settings>, settings: Settings, rules: Rules<Settings>) {
    requireOptions('optim', settings, rules);
    const seen = new Set<Tensor>();
    this.groups = groupsOf(params).map(({ params: list, ...own }) => {
      const merged = withDefaults(own, settings as object) as Settings;
      requireOptions('optim', merged, rules);
      this.check(merged);
      return new ParameterGroup(checkParameters([...list], seen), merged);
    });
    if (seen.size === 0)
      throw new ArgumentError('[optim] there are no parameters to train. Pass model.parameters().');
    for (const group of this.groups) {
      this.#shared.set(group, this.initialShared(group.settings, group.dtype));
      for (const parameter of group.params)
        this.#states.set(parameter, this.initialState(parameter, group.settings));
    }
  }

  /** @throws ArgumentError for settings that do not go together */
  protected check(_settings: Settings): void {}
  /** State of one parameter before the first step. */
  protected abstract initialState(parameter: Tensor, settings: Settings): State;
  /**
   * State that all parameters of a group have in common, before the first step. It counts the group's steps: a parameter
   * that gets its first gradient later takes part in it as the others do.
   * @param dtype of all that is computed from settings: f64 if a parameter is, else f32
   */
  protected initialShared(_settings: Settings, _dtype: DType<'f32' | 'f64'>): State {
    return {};
  }
  /** The group's state after a step. */
  protected nextShared(shared: State, _settings: Settings): State {
    return shared;
  }
  /** The new value of a parameter, and its new state. `shared` is the group's state after this step. */
  protected abstract update(of: Update<Settings>): { readonly value: Tensor; readonly state: State };

  /** The learning rate (of the first group); setting it sets that of all groups. */
  get lr(): number {
    return this.groups[0]!.lr;
  }

  set lr(value: number) {
    for (const group of this.groups) group.lr = value;
  }

  /**
   * @internal Keep the state of some of the parameters only, the other ranks that of the others (S. Rajbhandari et al., ZeRO:
   * Memory optimizations toward training trillion parameter models, 2020: stage 1). Each rank updates its parameters and gives
   * them to the others. From then on all ranks call `step` and `stateDict` together, with gradients that are the same on all unless
   * `step` averages them.
   */
  shard(world: World, options: ShardOptions = {}): void {
    if (this.#sharding) return;
    const parameters = this.groups.flatMap(({ params }) => params);
    this.#sharding = world.shard(parameters, options);
    for (const parameter of parameters) {
      if (this.#sharding.isOwn(parameter)) continue;
      for (const held of Object.values(this.#states.get(parameter)!)) held.dispose();
      this.#states.delete(parameter);
    }
  }

  /**
   * Apply the gradients gathered since the last step, then forget them. Parameters without a gradient are left alone.
   * Where a step cannot be computed, for want of memory or because a tensor it needs has been disposed of, parameters and
   * state keep their values.
   */
  step(options: OptimizerStepOptions = {}): void {
    requireOptions('step', options, STEP);
    if (currentTrace()) this.#requireGradients();
    noteUseOfGradients();
    const changed: Change[] = [];
    try {
      noGrad(() => {
        const assign = (to: Tensor, value: Tensor): void => {
          if (to === value) return;
          changed.push({ tensor: to, before: to.ownNode });
          to.assign(value);
        };
        const steps = this.groups.flatMap((group) => this.#stepOf(group, options.when, assign));
        const of = new Map(steps.flatMap((step) => step.moving.map((p) => [p, step] as const)));
        const update = (parameter: Tensor): void => of.get(parameter)!.update(parameter);
        const moving = [...of.keys()];
        if (this.#sharding) this.#sharding.update(moving, { ...options, update, assign });
        else for (const parameter of moving) update(parameter);
        for (const parameter of moving) parameter.grad = undefined;
        for (const { end } of steps) end();
      });
      realize(...changed.map(({ tensor }) => tensor));
    } catch (error) {
      for (const { tensor, before } of changed) tensor.ownNode = before;
      throw error;
    }
  }

  /** In `jit` a step without gradients is a mistake that every call would repeat. @throws ArgumentError */
  #requireGradients(): void {
    const all = this.groups.flatMap(({ params }) => params);
    if (all.some((p) => p.grad)) return;
    throw new ArgumentError(
      `[optim] step() within jit: no parameter of this optimizer has a gradient (${all.length} parameters, the first is ${labelOf(all[0]!)}). ` +
        'Call backward() before, in the same function. If you do, the loss does not depend on them: the optimizer was made for another model.',
    );
  }

  /** The step of a group, if any of its parameters has a gradient. */
  #stepOf(
    group: ParameterGroup<Settings>,
    when: Tensor | undefined,
    assign: (to: Tensor, value: Tensor) => void,
  ): GroupStep[] {
    const moving = group.params.filter((p) => p.grad);
    if (moving.length === 0) return [];
    const stale = moving.find((p) => isFromBefore(p.grad!));
    if (stale)
      throw new ArgumentError(
        `[optim] step() within jit: the gradient of a parameter of shape ${formatShape(stale.shape)} is from outside, and every call would apply it again. Call backward() in the jitted function, too.`,
      );
    const change = (to: Tensor, value: Tensor): void => {
      if (to !== value) assign(to, when ? when.where(value, to) : value);
    };
    const changeEach = (to: State, values: State): void => {
      for (const [name, value] of Object.entries(values)) change(to[name]!, value);
    };
    const { settings } = group;
    const sharedBefore = this.#shared.get(group)!;
    const shared = this.nextShared(sharedBefore, settings);
    const update = (parameter: Tensor): void => {
      const before = this.#states.get(parameter)!;
      const lr = group.rate.cast(parameter.dtype);
      const gradient = parameter.grad!;
      const { value, state } = this.update({ parameter, gradient, lr, state: before, shared, settings });
      changeEach(before, state);
      change(parameter, value);
    };
    return [{ moving, update, end: () => changeEach(sharedBefore, shared) }];
  }

  /** Forget the gradients gathered so far. (`step` does so automatically.) */
  zeroGrad(): void {
    for (const group of this.groups) for (const parameter of group.params) parameter.grad = undefined;
  }

  /** Learning rates and state by name, such as `0.lr`, `0.3.momentum` (group 0, parameter 3). */
  stateDict(): Record<string, Tensor> {
    const whole = this.#sharding?.gather(this.#wholeStates());
    return this.#named((parameter) => whole?.get(parameter) ?? this.#states.get(parameter)!);
  }

  /** @param stateOf where the state of a parameter is */
  #named(stateOf: (parameter: Tensor) => State | undefined): Record<string, Tensor> {
    const named: Record<string, Tensor> = {};
    this.groups.forEach((group, g) => {
      named[`${g}.lr`] = group.rate;
      for (const [name, value] of Object.entries(this.#shared.get(group)!)) named[`${g}.${name}`] = value;
      group.params.forEach((parameter, i) => {
        for (const [name, value] of Object.entries(stateOf(parameter) ?? {}))
          named[`${g}.${i}.${name}`] = value;
      });
    });
    return named;
  }

  /** The state of all parameters; of those that other ranks have, as it is in the beginning. */
  #wholeStates(): Map<Tensor, State> {
    return new Map(
      this.groups.flatMap(({ params, settings }) =>
        params.map((p) => [p, this.#states.get(p) ?? this.initialState(p, settings)] as const),
      ),
    );
  }

  /**
   * Take over what `stateDict` gave. Nothing is changed if anything does not fit.
   * @throws ArgumentError for missing or unexpected names, ShapeError
   */
  async loadStateDict(state: Readonly<Record<string, AnyTensor>>): Promise<void> {
    const whole = this.#wholeStates();
    requireMatch(
      'optim',
      'this optimizer',
      this.#named((parameter) => whole.get(parameter)),
      state,
    );
    const own = this.#named((parameter) => this.#states.get(parameter));
    const rates = await Promise.all(this.groups.map((_, g) => state[`${g}.lr`]!.item()));
    for (const rate of rates) requireArgument('optim', 'lr', rate, LEARNING_RATE);
    assignAll(own, state);
    this.groups.forEach((group, g) => {
      group.lr = rates[g]!;
    });
  }
}

/** The arguments of an update rule for one parameter. */
export interface Update<Settings> {
  /** The parameter before the step. */
  readonly parameter: Tensor;
  /** Of the parameter's shape and dtype. */
  readonly gradient: Tensor;
  /** A scalar of the parameter's dtype. */
  readonly lr: Tensor;
  /** The parameter's own state. */
  readonly state: State;
  /** State that all parameters of the group have in common. */
  readonly shared: State;
  /** The settings of its group. */
  readonly settings: Settings;
}

const isIterable = (value: unknown): value is Iterable<unknown> =>
  typeof value === 'object' && value !== null && Symbol.iterator in value;

function groupsOf<Settings>(params: Trainable<Settings>): readonly GroupOptions<Settings>[] {
  if (!isIterable(params))
    throw new ArgumentError(
      `[optim] params is ${shown(params)}, must be a list of parameters. Pass model.parameters().`,
    );
  const list = [...params] as (Tensor | GroupOptions<Settings>)[];
  if (list.every((x) => x instanceof Tensor)) return [{ params: list } as unknown as GroupOptions<Settings>];
  if (list.some((x) => x instanceof Tensor))
    throw new ArgumentError('[optim] tensors and groups are mixed: put the tensors into a group as well.');
  for (const [i, group] of list.entries())
    if (!isIterable((group as Partial<GroupOptions<Settings>> | null)?.params))
      throw new ArgumentError(
        `[optim] element ${i} is ${shown(group)}, must be a tensor, or a group { params, lr, … }. Pass model.parameters().`,
      );
  return list as GroupOptions<Settings>[];
}

function checkParameters(params: readonly Tensor[], seen: Set<Tensor>): readonly Tensor[] {
  for (const [i, parameter] of params.entries()) {
    requireTensor('optim', `parameter ${i}`, parameter);
    const { op } = parameter.ownNode;
    if (op !== 'leaf' && op !== 'detach')
      throw new ArgumentError(
        `[optim] a tensor of shape ${formatShape(parameter.shape)} is computed from others, its gradient goes to them: ` +
          'pass those, or make it a separate parameter.',
      );
    if (!parameter.requiresGrad)
      throw new ArgumentError(
        `[optim] a parameter of shape ${formatShape(parameter.shape)} does not require a gradient: ` +
          'make it with { requiresGrad: true }.',
      );
    if (seen.has(parameter))
      throw new ArgumentError(
        `[optim] a parameter of shape ${formatShape(parameter.shape)} is given twice: each belongs to one group.`,
      );
    seen.add(parameter);
  }
  return params;
}

/** @internal `options` over `defaults`; those that are undefined do not hide a default. @throws ArgumentError */
export function withDefaults<T extends object>(options: Partial<T>, defaults: T): T {
  requireObject('optim', options, Object.keys(defaults));
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return { ...defaults, ...Object.fromEntries(given) };
}

/** @internal Zeros of the parameter's shape and dtype. */
export const zerosLike = ({ shape, dtype }: Tensor): Tensor => storedZeros(shape, { dtype });
