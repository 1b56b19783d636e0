/** Connectionist temporal classification. Source: PyTorch's torch.nn.functional.ctc_loss. */
import { aBoolean, integerFrom, type Rules, requireArgument, requireOptions } from '../core/arguments.js';
import { type DTypeName, i32 } from '../core/dtype.js';
import { DTypeError, ShapeError } from '../core/errors.js';
import { formatShape, type Shape } from '../core/shape.js';
import * as b from '../graph/build.js';
import { ctcOp, LOWEST } from '../ops/ctc/op.js';
import { type AnyTensor, requireFloat, requireRank } from './checks.js';
import { arange, cat, full, stack } from './create.js';
import { LOSS, type LossOptions, type LossShape, type Reduction, reduced } from './functional-losses.js';
import { Tensor, widely } from './tensor.js';

/** Options of `ctcLoss`. */
export interface CtcOptions<R extends Reduction = Reduction> extends LossOptions<R> {
  /** The class that stands for no label; default 0. */
  readonly blank?: number;
  /** Whether losses of targets that the input is too short for count as 0 instead of Infinity; default false. */
  readonly zeroInfinity?: boolean;
}

const CTC: Rules<CtcOptions> = { ...LOSS, blank: integerFrom(0, 2 ** 31 - 1), zeroInfinity: aBoolean };

/** @throws ShapeError, DTypeError */
function requireLengths(name: string, t: AnyTensor, shape: readonly number[]): void {
  requireRank('ctcLoss', name, t, shape.length, shape.length === 2 ? '(N,S)' : '(N)');
  if (t.dtype !== i32)
    throw new DTypeError(`[ctcLoss] ${name} must be i32, got ${t.dtype.name}. Convert with .cast(i32).`);
  if (t.shape[0] !== shape[0])
    throw new ShapeError(
      `[ctcLoss] ${name} is ${formatShape(t.shape)}, logProbs have ${shape[0]} examples: the first size must be ${shape[0]}.`,
    );
}

/**
 * −log of the probability that the input says the target: Σ over all ways to spread its labels over the steps, with
 * blanks between them (Graves and others, 2006). The mean divides each loss by its target's length first. A target that
 * the input is too short for has the loss Infinity and no gradient; a label that is no class gives NaN.
 * @param logProbs floats (T, N, C): logarithms of probabilities, as `logSoftmax` gives
 * @param targets i32 (N, S): classes other than the blank; those after a target's length are not read
 * @param inputLengths i32 (N), 1 … T
 * @param targetLengths i32 (N), 0 … S
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function ctcLoss<D extends DTypeName, R extends Reduction = 'mean'>(
  logProbs: Tensor<Shape, D>,
  targets: AnyTensor,
  inputLengths: AnyTensor,
  targetLengths: AnyTensor,
  options: CtcOptions<R> = {},
): Tensor<LossShape<R>, D> {
  requireRank('ctcLoss', 'logProbs', logProbs, 3, '(T,N,C)');
  requireFloat('ctcLoss', 'logProbs', logProbs);
  requireOptions('ctcLoss', options, CTC);
  const [steps, batch, classes] = logProbs.shape as [number, number, number];
  requireLengths('targets', targets, [batch, 0]);
  requireLengths('inputLengths', inputLengths, [batch]);
  requireLengths('targetLengths', targetLengths, [batch]);
  if (steps === 0)
    throw new ShapeError(`[ctcLoss] logProbs are ${formatShape(logProbs.shape)}: there is no step in them.`);
  const { blank = 0, zeroInfinity = false, reduction = 'mean' } = options;
  requireArgument('ctcLoss', 'blank', blank, integerFrom(0, classes - 1));

  const count = targets.shape[1]!;
  const length = 2 * count + 1;
  const blanks = (size: number) => full([batch, size], blank, { dtype: i32 });
  const isRead = arange(count, { dtype: i32 }).lt(targetLengths.unsqueeze(1));
  const labels = isRead.where(targets as Tensor<Shape, 'i32'>, blank);
  const pairs = stack([blanks(count), labels], 2).reshape([batch, 2 * count]);
  const extended = cat([pairs, blanks(1)], 1) as Tensor<Shape, 'i32'>;
  const earlier = extended
    .pad(
      [
        [0, 0],
        [2, 0],
      ],
      { value: -1 },
    )
    .at(':', `0:${length}`);
  const isWrong = isRead.and(targets.lt(0).or(targets.ge(classes))).any(1);

  const losses = widely((scores) => {
    const index = extended.unsqueeze(0).expand([steps, batch, length]);
    const emitted = scores.gather(2, index).clamp(LOWEST);
    const none = full([1], 0, { dtype: scores.dtype });
    const skip = extended.ne(blank).and(extended.ne(earlier)).where(none, LOWEST);
    const paths = new Tensor(b.call(ctcOp, [emitted.node, skip.node], null));
    const last = arange(steps, { dtype: i32 })
      .reshape([steps, 1, 1])
      .eq(inputLengths.reshape([1, batch, 1]).sub(1));
    const end = targetLengths.mul(2).reshape([1, batch, 1]);
    const label = arange(length, { dtype: i32 });
    const isEnd = last.and(label.eq(end).or(label.eq(end.sub(1))));
    const loss = isEnd.where(paths, LOWEST).logSumExp([0, 2]).neg();
    const finite = loss.gt(-LOWEST / 10).where(zeroInfinity ? 0 : Infinity, loss);
    return isWrong.where(Number.NaN, finite);
  }, logProbs);
  if (reduction !== 'mean') return reduced(losses, reduction);
  return reduced(losses.div(targetLengths.maximum(1).cast(losses.dtype)), 'mean');
}
