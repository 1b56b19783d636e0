/** What arguments of public functions may be. */
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as H from '../../src/index.js';
import { f32, nn, ones, type Shape, Tensor, zeros } from '../../src/index.js';

/** An argument: one that is right, and which others are of the right kind. Those of another kind must be refused. */
export interface Spec {
  readonly good: () => unknown;
  readonly takes: (v: unknown) => boolean;
  /** Of an options object: its names. */
  readonly options?: Readonly<Record<string, Spec>>;
  /** Large numbers are right, and the work they ask for would take too long here. */
  readonly slow?: true;
}

export const spec = (good: () => unknown, takes: (v: unknown) => boolean): Spec => ({ good, takes });
export const isNumber = (v: unknown): boolean => typeof v === 'number';
export const isTensor = (v: unknown): boolean => v instanceof Tensor;
export const isValue = (v: unknown): boolean =>
  isNumber(v) || typeof v === 'boolean' || typeof v === 'bigint';
export const isList = (v: unknown): boolean => Array.isArray(v);
export const isFunction = (v: unknown): boolean => typeof v === 'function';
export const isPlain = (v: unknown): boolean =>
  typeof v === 'object' && v !== null && Object.getPrototypeOf(v) === Object.prototype;

export const optional = (s: Spec): Spec => ({ ...s, takes: (v) => v === undefined || s.takes(v) });
export const slow = (s: Spec): Spec => ({ ...s, slow: true });
export const orElse = (s: Spec, also: (v: unknown) => boolean): Spec => ({
  ...s,
  takes: (v) => s.takes(v) || also(v),
});

export const tensor = (make: () => Tensor<Shape, H.DType['name']> = () => ones([2, 2])): Spec =>
  spec(make, isTensor);
export const number = (value = 1): Spec => spec(() => value, isNumber);
export const text = (value = 'x'): Spec =>
  spec(
    () => value,
    (v) => typeof v === 'string',
  );
export const flag = spec(
  () => true,
  (v) => typeof v === 'boolean',
);
export const list = (make: () => unknown[]): Spec => spec(make, isList);
export const fn = (body: (...args: never[]) => unknown = () => undefined): Spec =>
  spec(() => body, isFunction);
export const oneOf = (first: string, ...others: string[]): Spec =>
  spec(
    () => first,
    (v) => [first, ...others].includes(v as string),
  );
export const only = (make: () => unknown, type: abstract new (...args: never[]) => unknown): Spec =>
  spec(make, (v) => v instanceof type);
export const shape = list(() => [2, 2]);
export const operand = orElse(tensor(), isValue);
export const value = spec(() => 1, isValue);
export const axis = number(0);
export const axes = optional(
  orElse(
    list(() => [0]),
    isNumber,
  ),
);
export const pair = (good: number): Spec => orElse(number(good), isList);
export const dtype = spec(
  () => f32,
  () => false,
);
export const values = orElse(
  list(() => [1, 2, 3, 4]),
  ArrayBuffer.isView,
);
export const labels = tensor(() => zeros([2], { dtype: H.i32 }));
export const images = tensor(() => ones([1, 1, 4, 4]));
/** An options object. Which of its names must be there the good one shows. */
export const options = (names: Readonly<Record<string, Spec>>, good: () => object = () => ({})): Spec => ({
  good,
  takes: (v) =>
    (isPlain(v) || v === undefined) && Object.keys(good()).length === 0 && Object.keys(v ?? {}).length === 0,
  options: names,
});

export const tensorOptions = { dtype: optional(dtype), requiresGrad: optional(flag) };
export const reduction = { reduction: optional(oneOf('mean', 'sum', 'none')) };
export const margin = { ...reduction, margin: optional(number(0.5)) };
export const nll = {
  ...reduction,
  weight: optional(tensor(() => ones([2]))),
  ignoreIndex: optional(number()),
};
export const precision = optional(oneOf('f32', 'tf32', 'bf16'));
export const pooling = { stride: optional(pair(2)), padding: optional(pair(0)) };
export const convolution = { ...pooling, dilation: optional(pair(1)), groups: optional(number()), precision };
const perChannel = optional(tensor(() => ones([1])));
export const channelNorm = { weight: perChannel, bias: perChannel, eps: optional(number(1e-5)) };
export const lastNorm = { weight: optional(tensor(() => ones([2]))), eps: optional(number(1e-5)) };
export const random = { ...tensorOptions, generator: optional(only(() => new H.Generator(0), H.Generator)) };
export const adam = {
  lr: optional(number(0.1)),
  betas: optional(list(() => [0.9, 0.99])),
  eps: optional(number(1e-8)),
  weightDecay: optional(number(0)),
};
export const momentum = { momentum: optional(number(0.9)), weightDecay: optional(number(0)) };
export const sgd = { ...momentum, lr: adam.lr, dampening: optional(number(0)), nesterov: optional(flag) };

export const layer = (): nn.Linear => new nn.Linear(2, 2);
export const parameters = list(() => layer().parameters());
export const dataset = (): H.ArrayDataset =>
  new H.ArrayDataset({
    inputs: new Float32Array(8),
    inputShape: [2],
    labels: new Int32Array(4),
    classes: 2,
  });
export const loader = (): H.Loader => new H.Loader(dataset(), { batchSize: 2 });
export const model = only(layer, nn.Module);
export const evaluating = {
  loss: fn(H.crossEntropy),
  lossReduction: optional(oneOf('mean', 'sum')),
  metrics: optional(
    spec(
      () => ({ accuracy: H.accuracy }),
      (v) => isPlain(v),
    ),
  ),
  autocast: optional(oneOf('bf16', 'f16')),
  resident: optional(flag),
  signal: optional(only(() => new AbortController().signal, AbortSignal)),
};
export const normalize = optional(
  spec(
    () => ({ mean: 0, std: 1 }),
    () => false,
  ),
);
export const bytes = only(() => new Uint8Array(4), Uint8Array);
export const file = join(tmpdir(), 'heddle-no-such-folder', 'file');
export const path = text(file);
const empty = (v: unknown): boolean => (isPlain(v) || isList(v)) && Object.keys(v as object).length === 0;
/** Parts of a checkpoint; none is right, too. */
export const parts = spec(
  () => ({ model: layer() }),
  (v) => isPlain(v) && empty(v),
);
export const perClass = {
  classes: optional(number(3)),
  average: optional(oneOf('macro', 'micro', 'binary')),
};
/** Tensors in arrays and records; none are right, too. */
export const batched = spec(
  () => ones([2, 2]),
  (v) => isTensor(v) || ((isPlain(v) || isList(v)) && empty(v)),
);
export const indices = orElse(
  list(() => [0]),
  ArrayBuffer.isView,
);
export const json = spec(
  () => null,
  (v) => v === null || ['number', 'string', 'boolean'].includes(typeof v) || isPlain(v) || isList(v),
);
export const metadata = optional(spec(() => ({ a: 'b' }), isPlain));
const plain = { dtype: 'f32', shape: [1], data: new Uint8Array(4) };
export const storedOne = spec(() => plain, isPlain);
export const stored = spec(() => ({ x: plain }), isPlain);
export const state = (make: () => object): Spec => spec(make, isPlain);
export const toy = {
  seed: optional(number()),
  trainLength: slow(optional(number(2))),
  testLength: slow(optional(number(2))),
};

export const block = orElse(number(), isList);
export const sharedBytes = optional(number(0));
export const launch = (more: Readonly<Record<string, Spec>> = {}): Spec =>
  options({ grid: slow(block), block, sharedBytes, cluster: optional(block), ...more }, () => ({
    grid: 1,
    block: 1,
  }));
export const kernelArguments = (x: () => unknown): Spec => ({
  good: () => ({ x: x(), n: 1 }),
  takes: () => false,
  options: {
    x: spec(x, (v) => v instanceof Tensor || ArrayBuffer.isView(v)),
    n: slow(orElse(number(), (v) => typeof v === 'bigint')),
  },
});

export const unary: readonly Spec[] = [];
export const binary = [operand];
export const reduce = [axes, options({ keepdim: optional(flag) })];
export const spread = [axes, options({ keepdim: optional(flag), correction: optional(number()) })];
export const pairwise = (more: Readonly<Record<string, Spec>> = {}): Spec[] => [
  tensor(),
  tensor(),
  options({ ...reduction, ...more }),
];
