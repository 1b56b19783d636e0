/** What a model is made of: its layers as they are called, their outputs, parameters and work. */
import { integerFrom, isPlainObject, listOf, type Rules, requireOptions, shown } from '../core/arguments.js';
import { type DType, f32 } from '../core/dtype.js';
import { ArgumentError } from '../core/errors.js';
import { formatShape, type Shape, sizeOf } from '../core/shape.js';
import { INSPECT } from '../tensor/print.js';
import { type AnyTensor, Tensor } from '../tensor/tensor.js';
import { flopsSince, heldBy, newestSerial, tracedAlone, valueless } from '../tensor/tracing.js';

/** An input of a model: the shape of one example, of f32, without the batch; a batch as a tensor; or a record of these. */
export type SummaryInput = Shape | AnyTensor | { readonly [name: string]: SummaryInput };

/** Options of `Module.summary`. */
export interface SummaryOptions {
  /** Examples of the batch that inputs given as shapes have (default 1). */
  readonly batchSize?: number;
}

const SUMMARY: Rules<SummaryOptions> = { batchSize: integerFrom(1) };

/** An output of a layer. */
export interface OutputSummary {
  /** The batch is its first dimension, as a rule. */
  readonly shape: Shape;
  /** Its dtype. */
  readonly dtype: DType;
}

/** One call of a layer, with all that it calls. */
export interface LayerSummary {
  /** The dotted name, '' for the model itself. */
  readonly name: string;
  /** The name of its class. */
  readonly type: string;
  /** How many calls it is within. */
  readonly depth: number;
  /** Its outputs, in order; undefined if it was not called. */
  readonly outputs: readonly OutputSummary[] | undefined;
  /** Elements of its parameters, those of layers below it and frozen ones included. */
  readonly parameters: number;
  /** Elements of those that are not frozen. */
  readonly trainable: number;
  /** Whether an earlier line is of the same module. */
  readonly reused: boolean;
  /** Floating-point operations of products, convolutions and recurrent layers, a multiply-add being two. */
  readonly flops: number;
  /** Memory of the outputs of its innermost layers, in bytes. */
  readonly activationBytes: number;
}

/** The result of `Module.summary`. `console.log` shows it as a table. */
export class ModelSummary {
  /** A line for each call of a layer, in the order of the calls; the first is the model. */
  readonly layers: readonly LayerSummary[];
  /** Elements of all parameters, frozen ones included; a parameter that two layers share counts once. */
  readonly parameters: number;
  /** Elements of those that are not frozen. */
  readonly trainable: number;
  /** Floating-point operations of one forward pass: see `LayerSummary`. A step of training takes about three times as many. */
  readonly flops: number;
  /** Memory of the inputs, in bytes. */
  readonly inputBytes: number;
  /** Memory of the parameters. */
  readonly parameterBytes: number;
  /** Memory of the buffers, such as running statistics. */
  readonly bufferBytes: number;
  /** Memory of the outputs of the innermost layers, each once: what a training would keep for gradients if nothing was fused. */
  readonly activationBytes: number;

  /** @internal */
  constructor(
    layers: readonly LayerSummary[],
    memory: Pick<ModelSummary, 'inputBytes' | 'parameterBytes' | 'bufferBytes'>,
  ) {
    const { parameters, trainable, flops, activationBytes } = layers[0]!;
    this.layers = layers;
    this.parameters = parameters;
    this.trainable = trainable;
    this.flops = flops;
    this.activationBytes = activationBytes;
    this.inputBytes = memory.inputBytes;
    this.parameterBytes = memory.parameterBytes;
    this.bufferBytes = memory.bufferBytes;
  }

  /** A table of the layers, and the sums under it. */
  toString(): string {
    const rows = this.layers.map((layer) => [
      `${'  '.repeat(layer.depth)}${nameWithin(layer, this.layers)}${layer.type}`,
      layer.outputs?.map(({ shape }) => formatShape(shape)).join(' ') ?? 'not called',
      layer.reused && layer.parameters > 0 ? 'reused' : counted(layer.parameters),
      prefixed(layer.flops),
      bytes(layer.activationBytes),
    ]);
    const header = ['layer', 'output', 'parameters', 'FLOPs', 'activations'];
    const widths = header.map((title, i) =>
      Math.max(...[title, ...rows.map((row) => row[i]!)].map(lengthOf)),
    );
    const line = (cells: readonly string[]): string =>
      cells.map((cell, i) => (i < 2 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join('  ');
    const frozen = this.parameters - this.trainable;
    return [
      line(header),
      widths.map((width) => '─'.repeat(width)).join('  '),
      ...rows.map((row) => line(row).trimEnd()),
      '',
      `parameters   ${grouped(this.parameters)}: ${grouped(this.trainable)} to train, ${grouped(frozen)} frozen`,
      `FLOPs        ${prefixed(this.flops)} forward: products, convolutions and recurrent layers, 2 for a multiply-add`,
      `memory       parameters ${bytes(this.parameterBytes)}, buffers ${bytes(this.bufferBytes)}, ` +
        `inputs ${bytes(this.inputBytes)}, activations ${bytes(this.activationBytes)}`,
    ].join('\n');
  }

  /** The text that `console.log` shows. */
  [INSPECT](): string {
    return this.toString();
  }
}

/** What a summary asks of a module. */
export interface Summarized {
  readonly training: boolean;
  namedModules(): Iterable<readonly [string, Summarized]>;
  namedParameters(): Iterable<readonly [string, Tensor]>;
  namedBuffers(): Iterable<readonly [string, Tensor]>;
  eval(): unknown;
  registerForwardPreHook(hook: () => undefined): { readonly remove: () => void };
  registerForwardHook(hook: (module: unknown, inputs: unknown, output: unknown) => undefined): {
    readonly remove: () => void;
  };
}

/** A call under way. */
interface Call {
  readonly module: Summarized;
  readonly depth: number;
  /** The newest node when it began. */
  readonly since: number;
  readonly below: Call[];
  outputs: readonly AnyTensor[];
}

/** Trace `forward` in evaluation mode, and note what each layer is called with. @throws ArgumentError */
export function summarize(
  model: Summarized & { forward(...inputs: never[]): unknown },
  input: unknown,
  options: SummaryOptions,
): ModelSummary {
  requireOptions('summary', options, SUMMARY);
  const given = inputsOf(input, options.batchSize ?? 1);
  return tracedAlone('summary', () => {
    const inputs = given();
    const [root] = callsOf(model, () => {
      (model.forward as (...inputs: readonly unknown[]) => unknown).apply(model, [...inputs]);
    });
    const layers = linesOf(root!, model);
    const memory = (tensors: Iterable<AnyTensor>): number => {
      let sum = 0;
      for (const { size, dtype } of tensors) sum += size * dtype.bytes;
      return sum;
    };
    const buffers = [...model.namedBuffers()].map(([, t]) => t);
    return new ModelSummary(layers, {
      inputBytes: memory(tensorsIn(inputs)),
      parameterBytes: memory(parametersOf(model)),
      bufferBytes: memory(buffers.filter((t) => !t.isFrozen)),
    });
  });
}

const aShape = listOf(integerFrom(0));
const isShape = (v: unknown): boolean => aShape.holds(v);

/** The arguments of `forward`, made when they are asked for. @throws ArgumentError */
function inputsOf(input: unknown, batchSize: number): () => readonly unknown[] {
  const one = (v: unknown, what: string): (() => unknown) => {
    if (v instanceof Tensor) return () => v;
    if (isPlainObject(v)) {
      const fields = Object.entries(v).map(([name, field]) => [name, one(field, `${what}.${name}`)] as const);
      return () => Object.fromEntries(fields.map(([name, make]) => [name, make()]));
    }
    if (isShape(v)) return () => valueless([batchSize, ...(v as Shape)], f32);
    throw new ArgumentError(
      `[summary] ${what} is ${shown(v)}, must be a shape such as [1, 28, 28], a tensor, or a list or record of those.`,
    );
  };
  if (!isShape(input) && Array.isArray(input)) {
    const all = input.map((v, i) => one(v, `input ${i}`));
    return () => all.map((make) => make());
  }
  const make = one(input, 'input');
  return () => [make()];
}

/** The calls of modules while `body` runs, in evaluation mode: those that are not within another, with those within them. */
function callsOf(model: Summarized, body: () => void): readonly Call[] {
  const modules = [...model.namedModules()].map(([, module]) => module);
  const modes = modules.map((module) => module.training);
  const top: Call[] = [];
  const open: Call[] = [];
  const hooks = modules.flatMap((module) => [
    module.registerForwardPreHook(() => {
      const call: Call = { module, depth: open.length, since: newestSerial(), below: [], outputs: [] };
      (open.at(-1)?.below ?? top).push(call);
      open.push(call);
      return undefined;
    }),
    module.registerForwardHook((_, __, output) => {
      open.pop()!.outputs = tensorsIn(output);
      return undefined;
    }),
  ]);
  try {
    model.eval();
    body();
  } finally {
    for (const hook of hooks) hook.remove();
    modules.forEach((module, i) => {
      (module as { training: boolean }).training = modes[i]!;
    });
  }
  return top;
}

/** A line for each call; then for modules that were not called, nor any below them, but have parameters. */
function linesOf(root: Call, model: Summarized): LayerSummary[] {
  const names = new Map([...model.namedModules()].map(([name, module]) => [module, name]));
  const called = new Set<Summarized>();
  const lines: LayerSummary[] = [];
  const add = (module: Summarized, depth: number, call?: Call): void => {
    const parameters = parametersOf(module);
    const held = new Set(call ? innermost(call).flatMap(({ outputs }) => outputs.map(heldBy)) : []);
    lines.push({
      ...{ name: names.get(module)!, depth, reused: called.has(module) },
      type: module.constructor.name,
      outputs: call?.outputs.map(({ shape, dtype }) => ({ shape, dtype })),
      parameters: elements(parameters),
      trainable: elements(parameters.filter((p) => p.requiresGrad)),
      flops: call ? flopsSince(call.since, call.outputs) : 0,
      activationBytes: [...held].reduce((sum, { shape, dtype }) => sum + sizeOf(shape) * dtype.bytes, 0),
    });
    called.add(module);
    for (const below of call?.below ?? []) add(below.module, depth + 1, below);
  };
  add(root.module, 0, root);
  const uncalled: string[] = [];
  for (const [module, name] of names) {
    const isPart = uncalled.some((above) => isBelow(name, above));
    const isUsed = [...called].some((other) => other === module || isBelow(names.get(other)!, name));
    if (isPart || isUsed || parametersOf(module).length === 0) continue;
    uncalled.push(name);
    add(module, 1);
    called.delete(module);
  }
  return lines;
}

const isBelow = (name: string, above: string): boolean =>
  name !== above && (above === '' || name.startsWith(`${above}.`));

const innermost = (call: Call): Call[] => (call.below.length === 0 ? [call] : call.below.flatMap(innermost));

const elements = (tensors: readonly Tensor[]): number => tensors.reduce((sum, { size }) => sum + size, 0);

/** Its parameters and those of modules below it, frozen ones included. */
const parametersOf = (module: Summarized): Tensor[] => [
  ...[...module.namedParameters()].map(([, t]) => t),
  ...[...module.namedBuffers()].flatMap(([, t]) => (t.isFrozen ? [t] : [])),
];

/** The tensors of what a module takes or returns: one, or several in arrays and records. */
function tensorsIn(value: unknown): AnyTensor[] {
  if (value instanceof Tensor) return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(tensorsIn) : [];
}

/** The name within the layer that it is shown under, and a colon. */
function nameWithin({ name, depth }: LayerSummary, layers: readonly LayerSummary[]): string {
  if (depth === 0) return '';
  const above = layers.filter((l) => l.depth < depth && isBelow(name, l.name)).map((l) => l.name.length);
  const most = Math.max(...above);
  return `${name.slice(most === 0 ? 0 : most + 1)}: `;
}

const lengthOf = (text: string): number => text.length;
const grouped = (n: number): string => n.toLocaleString('en-US');
const counted = (n: number): string => (n === 0 ? '–' : grouped(n));

/** Three digits, or all of those before the point. */
const short = (n: number): string => (n < 100 ? n.toPrecision(3) : n.toFixed(0));

/** 1234567 → 1.23 M */
function prefixed(n: number): string {
  if (n === 0) return '–';
  const power = Math.min(4, Math.floor(Math.log10(n) / 3));
  return power === 0 ? String(n) : `${short(n / 1000 ** power)} ${' kMGT'[power]}`;
}

/** 1234567 → 1.18 MiB */
function bytes(n: number): string {
  if (n === 0) return '–';
  const power = Math.min(4, Math.floor(Math.log2(n) / 10));
  return power === 0 ? `${n} B` : `${short(n / 1024 ** power)} ${' KMGT'[power]}iB`;
}
