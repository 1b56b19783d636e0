/**
 * Mixed precision: weights stay f32, products are computed in 16 bits. Micikevicius et al., Mixed precision training (2018);
 * the lists of ops are those of PyTorch's torch.autocast.
 */
import { aFunction, type Rule, requireArgument } from '../core/arguments.js';
import { bf16, type DType, f16, f32, isHalf } from '../core/dtype.js';
import { ArgumentError } from '../core/errors.js';
import * as b from '../graph/build.js';
import type { GraphNode } from '../graph/node.js';

let dtypeOfProducts: DType<'f16' | 'bf16'> | undefined;

const aHalf: Rule = { must: 'f16 or bf16', holds: (v) => v === f16 || v === bf16 };

/**
 * Run `body` in mixed precision: products of f32 (matmul, einsum, linear, convolutions) are computed in `dtype` and give it; what is
 * steep or long (softmax, losses, exp, log, powers, sums, norms) is computed in f32 and gives f32; all else keeps the dtype it
 * gets, and floats of different dtypes meet in f32. Weights and their gradients stay f32.
 *
 * bf16 has the range of f32 and needs nothing else; gradients in f16 may become 0 or infinite: see `optim.GradScaler`.
 * `backward` may be called inside or outside.
 * @example
 * ```ts
 * import { autocast, bf16, crossEntropy, nn, randn, tensor } from 'heddle';
 *
 * const model = new nn.Linear(8, 2);
 * const [x, labels] = [randn([4, 8]), tensor(Int32Array.of(0, 1, 1, 0))];
 * autocast(bf16, () => crossEntropy(model.forward(x), labels)).backward();
 * console.log(model.weight.grad!.dtype.name); // → f32
 * ```
 * @param dtype f16 or bf16
 * @throws ArgumentError for another dtype, or an async body
 */
export function autocast<T>(dtype: DType<'f16' | 'bf16'>, body: () => T): T {
  requireArgument('autocast', 'dtype', dtype, aHalf);
  requireArgument('autocast', 'body', body, aFunction, 'Write autocast(bf16, () => …).');
  const result = within(dtype, body);
  if (result instanceof Promise)
    throw new ArgumentError(
      '[autocast] takes a function that is not async: mixed precision is on only until it returns.',
    );
  return result;
}

function within<T>(dtype: typeof dtypeOfProducts, body: () => T): T {
  const before = dtypeOfProducts;
  dtypeOfProducts = dtype;
  try {
    return body();
  } finally {
    dtypeOfProducts = before;
  }
}

/** @internal Whether floats of different dtypes may meet. */
export const isMixed = (): boolean => dtypeOfProducts !== undefined;

/** @internal Floats as products take them: of f32 the dtype that `autocast` says. */
export const forProduct = (x: GraphNode): GraphNode =>
  dtypeOfProducts && (x.dtype === f32 || isHalf(x.dtype)) ? b.cast(x, dtypeOfProducts) : x;

/** @internal 16-bit floats as f32, in mixed precision. */
export const inFull = (x: GraphNode): GraphNode => (dtypeOfProducts && isHalf(x.dtype) ? b.cast(x, f32) : x);

/** @internal In mixed precision, floats of which some are f32 as f32; else as they are. */
export function met(...nodes: readonly GraphNode[]): readonly GraphNode[] {
  if (!dtypeOfProducts) return nodes;
  const floats = nodes.filter(({ dtype }) => dtype === f32 || isHalf(dtype));
  const isOne = floats.every(({ dtype }) => dtype === floats[0]?.dtype);
  return isOne ? nodes : nodes.map((x) => (isHalf(x.dtype) ? b.cast(x, f32) : x));
}
