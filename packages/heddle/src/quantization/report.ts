/** What a quantization costs: the errors of each layer, and which layers to keep. */
import { atLeast, instance, type Rules, requireArgument, requireOptions, shown } from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import { evaluating } from '../nn/evaluating.js';
import { Module } from '../nn/module.js';
import { noGrad } from '../tensor/modes.js';
import { INSPECT } from '../tensor/print.js';
import { Tensor } from '../tensor/tensor.js';
import { batchesOf, type LabeledBatch, type QuantizationBatches } from './batches.js';
import { QuantizedModule } from './quantized-module.js';
import { withSumsOfBytes } from './sums.js';

/** Options of `quantizationReport`. */
export interface QuantizationReportOptions {
  /** The loss of accuracy that is acceptable, in percentage points (default 0.3). */
  readonly maxLoss?: number;
}

const OPTIONS: Rules<QuantizationReportOptions> = { maxLoss: atLeast(0) };

/** How far values are from those in floating point. */
export interface QuantizationError {
  /** The signal-to-quantization-noise ratio, 10·log₁₀(Σ y² / Σ (y − ŷ)²), in dB: Infinity if they are equal. */
  readonly sqnr: number;
  /** The largest |y − ŷ|. */
  readonly maxError: number;
}

/** A quantized layer. */
export interface LayerQuantizationReport {
  /** Its dotted name in the model. */
  readonly name: string;
  /** `Linear` or `Conv2d`. */
  readonly kind: string;
  /** Of its outputs, when all layers are quantized. */
  readonly output: QuantizationError;
  /** Of the model's outputs, when this layer alone is quantized. */
  readonly alone: QuantizationError;
}

/** The result of `quantizationReport`. `console.log` shows it as a table. */
export class QuantizationReport {
  /** In the order in which the model names them. */
  readonly layers: readonly LayerQuantizationReport[];
  /** Of the model's outputs. */
  readonly output: QuantizationError;
  /** The fraction of examples whose largest output (whose one output's sign) is that of their label; undefined without labels. */
  readonly accuracy: { readonly float: number; readonly quantized: number } | undefined;
  /** The fraction of examples whose largest output is the same. */
  readonly agreement: number;
  /**
   * Layers to keep in floating point, the most sensitive first, so that the accuracy lost is within `maxLoss`; empty if it is so
   * already. Without labels it is the agreement that is to be within it.
   */
  readonly keep: readonly string[];
  /** The accuracy (without labels the agreement) when these layers are kept. */
  readonly kept: number;

  /** @internal Made by `quantizationReport`. */
  constructor(
    facts: Pick<QuantizationReport, 'layers' | 'output' | 'accuracy' | 'agreement' | 'keep' | 'kept'>,
  ) {
    this.layers = facts.layers;
    this.output = facts.output;
    this.accuracy = facts.accuracy;
    this.agreement = facts.agreement;
    this.keep = facts.keep;
    this.kept = facts.kept;
  }

  /** The report as text: a line for each layer. */
  toString(): string {
    const number = (v: number, digits = 1): string => (Number.isFinite(v) ? v.toFixed(digits) : '∞');
    const rows = [
      ['layer', 'kind', 'SQNR dB', 'max error', 'alone dB'],
      ...this.layers.map(({ name, kind, output, alone }) => [
        name,
        kind,
        number(output.sqnr),
        output.maxError.toPrecision(3),
        number(alone.sqnr),
      ]),
    ];
    const widths = rows[0]!.map((_, i) => Math.max(...rows.map((row) => row[i]!.length)));
    const lines = rows.map((row) =>
      row.map((text, i) => (i < 2 ? text.padEnd(widths[i]!) : text.padStart(widths[i]!))).join('  '),
    );
    const percent = (v: number): string => `${(100 * v).toFixed(2)} %`;
    const { accuracy, agreement, keep, kept, output } = this;
    lines.push(`model: ${number(output.sqnr)} dB, same answer for ${percent(agreement)}`);
    if (accuracy) lines.push(`accuracy: ${percent(accuracy.float)} → ${percent(accuracy.quantized)}`);
    if (keep.length > 0)
      lines.push(
        `keep ${keep.join(', ')} in floating point: ${accuracy ? 'accuracy' : 'agreement'} ${percent(kept)}`,
      );
    return lines.join('\n');
  }

  /** The text that `console.log` shows. */
  [INSPECT](): string {
    return this.toString();
  }
}

/** Sums of which errors are made. */
class ErrorSums {
  #signal = 0;
  #noise = 0;
  #most = 0;

  add(exact: ArrayLike<number>, rounded: ArrayLike<number>): void {
    for (let i = 0; i < exact.length; i++) {
      const error = exact[i]! - rounded[i]!;
      this.#signal += exact[i]! ** 2;
      this.#noise += error ** 2;
      this.#most = Math.max(this.#most, Math.abs(error));
    }
  }

  result(): QuantizationError {
    const sqnr = this.#noise === 0 ? Number.POSITIVE_INFINITY : 10 * Math.log10(this.#signal / this.#noise);
    return { sqnr, maxError: this.#most };
  }
}

/** Examples whose largest output is that of their label, and whose largest output is another model's. */
class Answers {
  #examples = 0;
  #labeled = 0;
  #right = 0;
  #same = 0;

  add(answers: ArrayLike<number>, others: ArrayLike<number>, labels: ArrayLike<number> | undefined): void {
    for (let i = 0; i < answers.length; i++) {
      this.#examples++;
      if (answers[i] === others[i]) this.#same++;
      if (labels && answers[i] === labels[i]) this.#right++;
    }
    if (labels) this.#labeled += answers.length;
  }

  get agreement(): number {
    return this.#same / this.#examples;
  }

  /** undefined unless all examples have labels. */
  get accuracy(): number | undefined {
    return this.#labeled === this.#examples ? this.#right / this.#examples : undefined;
  }
}

/** The output of `model` for a batch (N, classes), and those of some modules by name. */
async function outputsOf(
  model: Module,
  { inputs }: LabeledBatch,
  watched: ReadonlyMap<string, Module>,
): Promise<{ readonly logits: Tensor; readonly layers: ReadonlyMap<string, ArrayLike<number>> }> {
  const seen: (readonly [string, Tensor])[] = [];
  const hooks = [...watched].map(([name, module]) =>
    module.registerForwardHook((_, __, y) => {
      seen.push([name, y as Tensor]);
      return undefined;
    }),
  );
  try {
    const logits: unknown = evaluating(model, () =>
      noGrad(() => (model.forward as (x: Tensor) => unknown)(inputs)),
    );
    if (!(logits instanceof Tensor) || logits.ndim < 2)
      throw new ArgumentError(
        `[quantizationReport] the model gives ${shown(logits)}, must give a tensor (N, …): an output for each example.`,
      );
    const layers = new Map<string, ArrayLike<number>>();
    const made = model instanceof QuantizedModule ? withSumsOfBytes(seen) : seen;
    for (const [name, y] of made) layers.set(name, await y.data());
    return { logits, layers };
  } finally {
    for (const hook of hooks) hook.remove();
  }
}

/** The largest output; of a single one whether it is positive. */
function answersOf(logits: Tensor): Promise<ArrayLike<number>> {
  const rows = logits.flatten(1);
  return rows.shape[1] === 1 ? rows.gt(0).flatten().data() : rows.argmax(1).data();
}

/**
 * What a quantization costs: for each layer how far its outputs are from those in floating point, and how far the model's are if
 * it alone is quantized; and the layers to keep in floating point so that the accuracy lost is small.
 * @param model what `quantize` was given
 * @param quantized what it made
 * @param batches examples of the test data, with labels where accuracy is to be judged; the model's outputs are (N, classes)
 * @example
 * ```ts
 * import { manualSeed, nn, randn } from 'heddle';
 * import { quantizationReport, quantize } from 'heddle/quantization';
 *
 * manualSeed(0);
 * const model = new nn.Sequential(new nn.Linear(4, 8), new nn.ReLU(), new nn.Linear(8, 2));
 * const x = randn([256, 4]);
 * const quantized = await quantize(model, [x]);
 * const report = await quantizationReport(model, quantized, [x], { maxLoss: 2 });
 * console.log(report.agreement > 0.95, report.layers.every(({ output }) => output.sqnr > 20)); // → true true
 * ```
 * @throws ArgumentError, and what `forward` throws for such inputs
 */
export async function quantizationReport(
  model: Module,
  quantized: QuantizedModule,
  batches: QuantizationBatches,
  options: QuantizationReportOptions = {},
): Promise<QuantizationReport> {
  requireArgument('quantizationReport', 'model', model, instance(Module, 'a Module'));
  requireArgument(
    'quantizationReport',
    'quantized',
    quantized,
    instance(QuantizedModule, 'what quantize makes'),
  );
  requireOptions('quantizationReport', options, OPTIONS);
  if (!quantized.isOf(model))
    throw new ArgumentError(
      '[quantizationReport] quantized was made of another model: give the one that quantize was given.',
    );
  const examples = await batchesOf('quantizationReport', batches);
  const exact: Exact[] = [];
  for (const batch of examples) exact.push(await exactly(model, quantized, batch));
  const names = [...quantized.layers.keys()];
  const inAll = await compared(quantized, exact, names);
  const layers: LayerQuantizationReport[] = [];
  for (const [i, name] of names.entries()) {
    const { output } = await compared(quantized.keeping(names.filter((other) => other !== name)), exact, []);
    layers.push({ name, kind: quantized.layers.get(name)!.kind, output: inAll.layers[i]!, alone: output });
  }
  const floats = new Answers();
  for (const { answers, labels } of exact) floats.add(answers, answers, labels);
  const wanted = (floats.accuracy ?? 1) - (options.maxLoss ?? 0.3) / 100;
  const kept = await layersToKeep(quantized, exact, layers, inAll.quality, wanted);
  return new QuantizationReport({
    layers,
    output: inAll.output,
    accuracy:
      floats.accuracy === undefined ? undefined : { float: floats.accuracy, quantized: inAll.quality },
    agreement: inAll.agreement,
    ...kept,
  });
}

/** What the model in floating point gives for a batch. */
interface Exact {
  readonly batch: LabeledBatch;
  readonly logits: ArrayLike<number>;
  readonly answers: ArrayLike<number>;
  readonly labels: ArrayLike<number> | undefined;
  /** The outputs of the layers that are quantized, those of the batch norms folded into them included. */
  readonly layers: ReadonlyMap<string, ArrayLike<number>>;
}

async function exactly(model: Module, quantized: QuantizedModule, batch: LabeledBatch): Promise<Exact> {
  const { logits, layers } = await outputsOf(model, batch, quantized.originals);
  const labels = await batch.labels?.data();
  return { batch, logits: await logits.data(), answers: await answersOf(logits), labels, layers };
}

/** A quantized model's outputs and those of its layers beside the exact ones. */
async function compared(quantized: QuantizedModule, exact: readonly Exact[], names: readonly string[]) {
  const output = new ErrorSums();
  const layers = names.map(() => new ErrorSums());
  const answers = new Answers();
  const watched = new Map(names.map((name) => [name, quantized.layers.get(name)!] as const));
  for (const known of exact) {
    const made = await outputsOf(quantized, known.batch, watched);
    output.add(known.logits, await made.logits.data());
    answers.add(await answersOf(made.logits), known.answers, known.labels);
    for (const [i, name] of names.entries()) layers[i]!.add(known.layers.get(name)!, made.layers.get(name)!);
  }
  return {
    output: output.result(),
    layers: layers.map((sums) => sums.result()),
    agreement: answers.agreement,
    /** The accuracy, or without labels the agreement. */
    quality: answers.accuracy ?? answers.agreement,
  };
}

/** Keeps one more layer, the most sensitive that is left, until the quality is reached. */
async function layersToKeep(
  quantized: QuantizedModule,
  exact: readonly Exact[],
  layers: readonly LayerQuantizationReport[],
  quality: number,
  wanted: number,
): Promise<{ readonly keep: readonly string[]; readonly kept: number }> {
  const bySensitivity = [...layers].sort((a, b) => a.alone.sqnr - b.alone.sqnr).map(({ name }) => name);
  let kept = quality;
  let count = 0;
  while (kept < wanted && count < bySensitivity.length) {
    count++;
    kept = (await compared(quantized.keeping(bySensitivity.slice(0, count)), exact, [])).quality;
  }
  return { keep: bySensitivity.slice(0, count), kept };
}
