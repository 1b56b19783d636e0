/** What an optimizer makes of parameters and gradients: its published formula, on the tape. */
import type { Tensor } from '../../src/index.js';
import { optim } from '../../src/index.js';
import type { Picker } from './op.js';
import type { Expected } from './program.js';
import { FORMATS, Tape } from './tape.js';

export interface Choice {
  readonly name: 'SGD' | 'Adam' | 'AdamW' | 'RMSprop';
  readonly options: Readonly<Record<string, number | boolean>>;
}

export const chooseOptimizer = (p: Picker): Choice =>
  p.one([
    { name: 'SGD', options: { lr: 0.1 } },
    { name: 'SGD', options: { lr: 0.1, weightDecay: 0.01 } },
    { name: 'SGD', options: { lr: 0.05, momentum: 0.9 } },
    { name: 'SGD', options: { lr: 0.05, momentum: 0.9, nesterov: true, weightDecay: 0.1 } },
    { name: 'SGD', options: { lr: 0.05, momentum: 0.8, dampening: 0.5 } },
    { name: 'Adam', options: { lr: 0.02, eps: 0.01, weightDecay: 0.1 } },
    { name: 'AdamW', options: { lr: 0.02, eps: 0.01 } },
    { name: 'RMSprop', options: { lr: 0.02, eps: 0.01, alpha: 0.9 } },
    { name: 'RMSprop', options: { lr: 0.02, eps: 0.01, momentum: 0.5 } },
  ] as const);

export const makeOptimizer = ({ name, options }: Choice, params: readonly Tensor[]): { step(): void } =>
  new optim[name](params, options);

/** What an optimizer keeps for one parameter. */
export type Memory = ReadonlyMap<string, Expected>;

/** A parameter after step `count` (from 1), and what is kept for the next one. */
export function stepped(
  { name, options }: Choice,
  parameter: Expected,
  gradient: Expected,
  memory: Memory,
  count: number,
): { parameter: Expected; memory: Memory } {
  const { dtype } = parameter;
  const { unit } = FORMATS[dtype];
  const o = {
    momentum: 0,
    dampening: 0,
    weightDecay: name === 'AdamW' ? 0.01 : 0,
    alpha: 0.99,
    ...options,
  } as Record<string, number>;
  const [lr, eps, decay] = [o.lr!, o.eps!, o.weightDecay!];
  const tape = new Tape();
  const load = (of: Expected | undefined, i: number): number =>
    of ? tape.leaf(dtype, of.value[i]!, of.error[i]!) : tape.leaf(dtype, 0);
  const blend = (ids: number[], factors: number[]): number => tape.combination(dtype, ids, factors);
  const root = { f: Math.sqrt, slope: (v: number) => 0.5 / Math.sqrt(v) };
  const kept = new Map<string, number[]>();
  const keep = (key: string, id: number): number => {
    kept.set(key, [...(kept.get(key) ?? []), id]);
    return id;
  };
  const ids = Array.from(parameter.value, (_, i) => {
    const p = load(parameter, i);
    const g0 = load(gradient, i);
    const g = decay === 0 || name === 'AdamW' ? g0 : blend([g0, p], [1, decay]);
    const old = (key: string): number => load(memory.get(key), i);
    if (name === 'SGD') {
      if (o.momentum === 0) return blend([p, g], [1, -lr]);
      const share = count === 1 ? 1 : 1 - o.dampening!;
      const m = keep('momentum', blend([old('momentum'), g], [o.momentum!, share]));
      return blend([p, o.nesterov ? blend([g, m], [1, o.momentum!]) : m], [1, -lr]);
    }
    const square = tape.dot(dtype, [g], [g]);
    const over = (x: number, power: number, scale: number): number =>
      tape.quotient(dtype, x, blend([tape.curve(dtype, power, root), tape.constant(dtype, 1)], [scale, eps]));
    if (name === 'RMSprop') {
      const power = keep('square', blend([old('square'), square], [o.alpha!, 1 - o.alpha!]));
      const direction = over(g, power, 1);
      if (o.momentum === 0) return blend([p, direction], [1, -lr]);
      return blend([p, keep('momentum', blend([old('momentum'), direction], [o.momentum!, 1]))], [1, -lr]);
    }
    const m = keep('mean', blend([old('mean'), g], [0.9, 0.1]));
    const v = keep('square', blend([old('square'), square], [0.999, 0.001]));
    const correction = (beta: number): number => 1 - beta ** count;
    const towards = over(m, v, 1 / Math.sqrt(correction(0.999)));
    // The corrections are computed step by step, with a rounding in each.
    const rate = tape.leaf(dtype, lr / correction(0.9), (4 + 2 * count) * unit * lr);
    const start = name === 'AdamW' ? blend([p], [1 - lr * decay]) : p;
    return blend([start, tape.dot(dtype, [towards], [rate])], [1, -1]);
  });
  const expected = (list: readonly number[]): Expected => ({
    ...parameter,
    value: list.map((id) => tape.value[id]!),
    error: list.map((id) => tape.error[id]!),
  });
  return { parameter: expected(ids), memory: new Map([...kept].map(([key, list]) => [key, expected(list)])) };
}
