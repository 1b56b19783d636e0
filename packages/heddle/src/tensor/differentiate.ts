/** Functions that make gradients of functions, and functions whose gradients are said by hand. */
import {
  aFunction,
  integerFrom,
  isThenable,
  type Rules,
  requireArgument,
  requireOptions,
  shown,
} from '../core/arguments.js';
import { requireFloats } from '../core/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../core/errors.js';
import { formatShape, sameShape } from '../core/shape.js';
import * as engine from '../engine/realize.js';
import * as b from '../graph/build.js';
import type { FusedOp } from '../graph/fused-op.js';
import { reachesOthers, vjp } from '../graph/grad.js';
import type { GraphNode } from '../graph/node.js';
import { type AnyTensor, requireTensor, Tensor } from './tensor.js';

/** Options of `grad` and `valueAndGrad`. */
export interface GradOptions<N extends number | readonly number[] = number | readonly number[]> {
  /** Which arguments the gradient is of, by position: a number gives one tensor, a list a list. Default 0. */
  readonly argnums?: N;
}

/** A gradient, or for a list of arguments a list of them. */
export type GradientOf<N> = N extends number ? Tensor : Tensor[];

const isPosition = integerFrom(0).holds;
const GRAD: Rules<GradOptions> = {
  argnums: {
    must: 'the position of an argument, or a list of them',
    holds: (v) => isPosition(v) || (Array.isArray(v) && v.length > 0 && v.every(isPosition)),
  },
};

/**
 * A function that gives the gradient of `fn`, a function of tensors whose result is one element. What it gives can be
 * differentiated again: by another `grad`, and by `backward`, with respect to its arguments and to whatever else `fn` uses.
 * As PyTorch's torch.func.grad.
 * @example
 * ```ts
 * import { grad, type Tensor, tensor } from 'heddle';
 *
 * const slope = grad((x: Tensor) => x.square().sum());
 * console.log(await slope(tensor([1, 2, 3])).array()); // → [ 2, 4, 6 ]
 * ```
 * @throws ArgumentError, DTypeError, ShapeError when called: the arguments must be tensors of floats, the result one element
 */
export function grad<A extends readonly unknown[], const N extends number | readonly number[] = 0>(
  fn: (...args: A) => AnyTensor,
  options: GradOptions<N> = {},
): (...args: A) => GradientOf<N> {
  const both = differentiated('grad', fn, options);
  return (...args) => both(args).gradient as GradientOf<N>;
}

/**
 * As `grad`, of both the value and the gradient: `[value, gradient]`.
 * @example
 * ```ts
 * import { type Tensor, tensor, valueAndGrad } from 'heddle';
 *
 * const [value, slope] = valueAndGrad((x: Tensor) => x.square().sum())(tensor([1, 2, 3]));
 * console.log(await value.item(), await slope.array()); // → 14 [ 2, 4, 6 ]
 * ```
 */
export function valueAndGrad<
  A extends readonly unknown[],
  R extends AnyTensor,
  const N extends number | readonly number[] = 0,
>(fn: (...args: A) => R, options: GradOptions<N> = {}): (...args: A) => [value: R, gradient: GradientOf<N>] {
  const both = differentiated('valueAndGrad', fn, options);
  return (...args) => {
    const { value, gradient } = both(args);
    engine.remember(value.node);
    return [value as R, gradient as GradientOf<N>];
  };
}

interface ValueAndGradient {
  readonly value: AnyTensor;
  readonly gradient: AnyTensor | AnyTensor[];
}

function differentiated<A extends readonly unknown[]>(
  op: string,
  fn: (...args: A) => AnyTensor,
  options: GradOptions,
): (args: A) => ValueAndGradient {
  requireArgument(op, 'fn', fn, aFunction, `Write ${op}((x) => …).`);
  requireOptions(op, options, GRAD);
  const { argnums = 0 } = options;
  const positions = typeof argnums === 'number' ? [argnums] : argnums;
  return (args) => {
    for (const i of positions) {
      requireTensor(op, `argument ${i}`, args[i]);
      requireFloats(op, `argument ${i}`, args[i] as AnyTensor);
    }
    // A separate variable: a use of the same tensor by fn from outside is a constant.
    const given = new Map(positions.map((i) => [i, (args[i] as AnyTensor).node]));
    const variables = new Map([...given].map(([i, node]) => [i, b.variable(node)]));
    const value: unknown = b.withGradients(() =>
      fn(...(args.map((a, i) => (variables.has(i) ? new Tensor(variables.get(i)!) : a)) as unknown as A)),
    );
    requireScalarResult(op, value);
    const root = value.node;
    const wrt = positions.map((i) => variables.get(i)!);
    // Where nothing else could ask for its gradient, the result keeps no graph.
    const isUsed =
      b.recordsGradients() &&
      ([...given.values()].some((node) => node.requiresGrad) || reachesOthers(root, new Set(wrt)));
    const derive = (): (GraphNode | undefined)[] => vjp([root], [b.like(root, 1)], wrt);
    const gradients = isUsed ? derive() : b.withoutGradients(derive);
    const found = gradients.map((g, k) => new Tensor(g ?? b.like(wrt[k]!, 0)));
    return {
      value: isUsed ? value : value.detach(),
      gradient: typeof argnums === 'number' ? found[0]! : found,
    };
  };
}

/** @throws ArgumentError, ShapeError, DTypeError */
function requireScalarResult(op: string, value: unknown): asserts value is AnyTensor {
  if (isThenable(value)) throw new ArgumentError(`[${op}] fn must not be async: await values outside of it.`);
  requireTensor(op, 'the result of fn', value);
  if (value.size !== 1)
    throw new ShapeError(
      `[${op}] the result of fn is ${formatShape(value.shape)}, must be one element. Reduce it: .sum() or .mean().`,
    );
  requireFloats(op, 'the result of fn', value);
}

/** The gradients of the inputs, from that of the output; undefined for an input that has none. */
export type CustomBackward<I extends readonly AnyTensor[], O extends AnyTensor> = (
  gradient: O,
  inputs: I,
  output: O,
) => readonly (AnyTensor | undefined)[];

/**
 * `forward` with gradients computed by `backward`. This is how your own kernel takes part in training, also within `jit`.
 * `forward` runs without gradients, so that a tensor that it uses from outside gets none: pass it as an input. What
 * `backward` computes can be differentiated again, if it is made of what can.
 * @example
 * ```ts
 * import { customGradient, type Tensor, tensor } from 'heddle';
 *
 * const straight = customGradient(
 *   (x: Tensor) => x.round(),
 *   (g) => [g],
 * );
 * const x = tensor([0.4, 1.6], { requiresGrad: true });
 * straight(x).sum().backward();
 * console.log(await x.grad!.array()); // → [ 1, 1 ]
 * ```
 * @param forward a function of tensors that gives a tensor, such as `(x) => cube.apply(…)`
 * @param backward gets the gradient of the output, the inputs and the output, and gives a list with the gradient of each
 * input, in its shape and dtype
 */
export function customGradient<const I extends readonly AnyTensor[], O extends AnyTensor>(
  forward: (...inputs: I) => O,
  backward: CustomBackward<I, O>,
): (...inputs: I) => O {
  requireArgument('customGradient', 'forward', forward, aFunction);
  requireArgument('customGradient', 'backward', backward, aFunction);
  const rule: CustomRule = {
    backward: (node, g) => {
      const inputs = node.src.slice(0, -1);
      const tensors = inputs.map((x) => new Tensor(x)) as readonly AnyTensor[] as I;
      const found = backward(new Tensor(g) as AnyTensor as O, tensors, new Tensor(node) as AnyTensor as O);
      return gradientsOf(inputs, found);
    },
  };
  return (...inputs) => {
    if (inputs.length === 0) throw new ArgumentError('[customGradient] takes at least one tensor.');
    for (const [i, x] of inputs.entries()) requireTensor('customGradient', `input ${i}`, x);
    const output = b.withoutGradients(() => forward(...inputs));
    requireTensor('customGradient', 'the result of forward', output);
    const src = [...inputs.map((x) => x.node), b.detach(output.node)];
    return new Tensor(b.call(customOp, src, rule)) as AnyTensor as O;
  };
}

interface CustomRule {
  readonly backward: (node: GraphNode, g: GraphNode) => readonly (GraphNode | undefined)[];
}

/** The last source, whose gradient goes to the others by rule. */
const customOp: FusedOp<CustomRule> = {
  name: 'customGradient',
  infer: (src) => src.at(-1)!,
  compose: (src) => src.at(-1)!,
  grad: (node, g, { backward }) => [...backward(node, g), undefined],
  kernels: [],
};

/** What `backward` gave, checked against the inputs. @throws ArgumentError, ShapeError, DTypeError */
function gradientsOf(inputs: readonly GraphNode[], found: unknown): (GraphNode | undefined)[] {
  if (!Array.isArray(found) || found.length !== inputs.length)
    throw new ArgumentError(
      `[customGradient] backward gave ${shown(found)}, must give a list with a gradient, or undefined, for each of the ${inputs.length} inputs.`,
    );
  return inputs.map((x, i) => {
    const g: unknown = found[i];
    if (g === undefined) return undefined;
    requireTensor('customGradient', `gradient ${i}`, g);
    if (!sameShape(g.shape, x.shape))
      throw new ShapeError(
        `[customGradient] gradient ${i} is ${formatShape(g.shape)}, input ${i} ${formatShape(x.shape)}: they must be equal.`,
      );
    if (g.dtype !== x.dtype)
      throw new DTypeError(
        `[customGradient] gradient ${i} is of ${g.dtype.name}, input ${i} of ${x.dtype.name}. Convert it with .cast(${x.dtype.name}).`,
      );
    return g.node;
  });
}
