/** What is seen of the inputs of a layer, and the range that is taken of it. */
import { ArgumentError } from '../core/errors.js';

/**
 * How the range of a layer's inputs is chosen from those of the calibration: minmax, all of them; percentile, but for the largest
 * few; entropy, the range whose 128 levels lose the least information by the Kullback-Leibler divergence (S. Migacz, 8-bit
 * inference with TensorRT, GTC 2017).
 */
export type CalibrationMethod = 'minmax' | 'percentile' | 'entropy';

/** Bins of a histogram: TensorRT's number. */
const BINS = 2048;
/** Positive levels, 0 among them. */
const LEVELS = 128;

/** A histogram of magnitudes. Its range doubles, by adding neighbouring bins, when a value is beyond it. */
export class Magnitudes {
  /** How many values fell into each bin of `width`. */
  readonly counts: Float64Array = new Float64Array(BINS);
  width = 0;
  /** The largest. */
  most = 0;

  /** @throws ArgumentError for NaN and infinite values */
  add(values: ArrayLike<number>, name: string): void {
    let most = 0;
    for (let i = 0; i < values.length; i++) {
      const size = Math.abs(values[i]!);
      // NaN is not below either.
      if (!(size <= Number.MAX_VALUE))
        throw new ArgumentError(
          `[quantize] an input of layer '${name}' is ${values[i]}: quantization takes finite values. Check the batches.`,
        );
      if (size > most) most = size;
    }
    if (most === 0) {
      this.counts[0]! += values.length;
      return;
    }
    this.most = Math.max(this.most, most);
    if (this.width === 0) this.width = most / BINS;
    while (this.width * BINS < most) this.#double();
    const { counts, width } = this;
    for (let i = 0; i < values.length; i++)
      counts[Math.min(BINS - 1, Math.floor(Math.abs(values[i]!) / width))]! += 1;
  }

  #double(): void {
    const { counts } = this;
    for (let i = 0; i < BINS; i++) counts[i] = i < BINS / 2 ? counts[2 * i]! + counts[2 * i + 1]! : 0;
    this.width *= 2;
  }
}

/** The largest magnitude that is to be represented; those beyond become as large. */
export function rangeOf(seen: Magnitudes, method: CalibrationMethod, percentile: number): number {
  if (seen.most === 0) return 0;
  const range = {
    minmax: () => seen.most,
    percentile: () => percentileOf(seen, percentile),
    entropy: () => leastDivergence(seen),
  }[method]();
  return Math.min(range, seen.most);
}

/** The end of the first bin up to which there are as many values. */
function percentileOf({ counts, width }: Magnitudes, percentile: number): number {
  const wanted = (percentile / 100) * counts.reduce((sum, n) => sum + n, 0);
  let sum = 0;
  const bin = counts.findIndex((n) => {
    sum += n;
    return sum >= wanted;
  });
  return (bin < 0 ? BINS : bin + 1) * width;
}

function leastDivergence({ counts: all, width }: Magnitudes): number {
  // Zeros, half of what ReLU gives, lose nothing by any range: spread over their bin they would outweigh all else.
  const counts = all.slice();
  counts[0] = counts[1]!;
  const total = counts.reduce((sum, n) => sum + n, 0);
  let best = { bins: BINS, divergence: Number.POSITIVE_INFINITY };
  let within = counts.subarray(0, LEVELS).reduce((sum, n) => sum + n, 0);
  for (let bins = LEVELS; bins <= BINS; bins++) {
    const divergence = divergenceOf(counts.subarray(0, bins), total - within);
    if (divergence < best.divergence) best = { bins, divergence };
    within += counts[bins] ?? 0;
  }
  return best.bins * width;
}

/**
 * KL(P ‖ Q): P are the bins with what is beyond them in the last one, Q the same in LEVELS levels, each spread evenly over those
 * of its bins that are not empty.
 */
function divergenceOf(bins: Float64Array, beyond: number): number {
  const total = bins.reduce((sum, n) => sum + n, beyond);
  const inside = total - beyond;
  if (inside === 0) return Number.POSITIVE_INFINITY;
  let divergence = 0;
  for (let level = 0; level < LEVELS; level++) {
    const from = Math.floor((level * bins.length) / LEVELS);
    const to = Math.floor(((level + 1) * bins.length) / LEVELS);
    let sum = 0;
    let filled = 0;
    for (let i = from; i < to; i++) {
      sum += bins[i]!;
      if (bins[i]! > 0) filled++;
    }
    for (let i = from; i < to; i++) {
      const isLast = i === bins.length - 1;
      const p = (bins[i]! + (isLast ? beyond : 0)) / total;
      if (p === 0) continue;
      // An empty last bin that stands for values beyond has none in Q.
      if (bins[i] === 0) return Number.POSITIVE_INFINITY;
      divergence += p * Math.log(p / (sum / filled / inside));
    }
  }
  return divergence;
}
