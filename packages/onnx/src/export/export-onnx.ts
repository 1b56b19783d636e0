/** Models as ONNX files. */
import { create, toBinary } from '@bufbuild/protobuf';
import { type AnyTensor, nn } from 'heddle';
import {
  aBoolean,
  aList,
  aString,
  instance,
  integerFrom,
  listOf,
  oneOf,
  type Rule,
  type Rules,
  recordOf,
  requireArgument,
  requireOptions,
} from 'heddle/internal/core/arguments.js';
import { f32 } from 'heddle/internal/core/dtype.js';
import { ArgumentError } from 'heddle/internal/core/errors.js';
import type { GraphNode } from 'heddle/internal/graph/node.js';
import { writeFileAtomic } from 'heddle/internal/io/atomic.js';
import { ELEMENT_TYPES } from '../file/element-types.js';
import {
  ModelProtoSchema,
  StringStringEntryProtoSchema,
  type ValueInfoProto,
  ValueInfoProtoSchema,
} from '../protobuf/onnx_pb.js';
import { type DynamicDimension, Emission } from './emission.js';
import { groupByLayers, type LayerClass, type LayerFunctions, opsetImport } from './functions.js';
import { refuseKernels } from './fused-ops.js';
import { toHalf } from './half.js';
import { isWhole } from './layers.js';
import { writeNode } from './primitives.js';
import {
  type Choices,
  choose,
  isFixed,
  type Point,
  pointsOf,
  polynomialOf,
  polynomialText,
  type Size,
} from './sizes.js';
import { bytesOfTensor } from './tensor-bytes.js';
import {
  type ExampleInput,
  layerCallOf,
  type ModelTrace,
  type NamedTensor,
  namedTensors,
  traceModel,
  withOrigins,
} from './trace-model.js';
import { externalTensors, inlineTensors } from './write-tensors.js';

/** Which dimensions of the inputs are dynamic: of each input, by its name, the names of such dimensions by their axes. */
export type DynamicAxes = Readonly<Record<string, Readonly<Record<number, string>>>>;

/** Options of `exportOnnx`. */
export interface ExportOptions {
  /** Where to write the file; default: nowhere, its bytes are in the result. */
  readonly path?: string;
  /** The version of the operators, 18 to 24; default 21. Later ones have operators for more layers. */
  readonly opset?: number;
  /** Names of the tensors in the inputs, in order; default `input`, of several `input_0`…, of records their fields. */
  readonly inputNames?: readonly string[];
  /** Names of the tensors in the result, in order; default `output`, of several `output_0`…, of records their fields. */
  readonly outputNames?: readonly string[];
  /** Dimensions that may have any size; equal names are equal sizes. 'batch': the first one of every input. Default: none. */
  readonly dynamicAxes?: DynamicAxes | 'batch';
  /** What the model computes in; its inputs and outputs stay as they are. With 'f16' weights take half the memory. Default: 'f32'. */
  readonly precision?: 'f32' | 'f16';
  /** Keep the tensors in a file beside the model. Default: if the model has 2 GiB or more, which a file cannot have. */
  readonly externalData?: boolean;
  /**
   * Write layers as functions of the model, so that viewers show the model layer by layer: true for every layer that is more than one
   * operator, or the classes of those to write so. A function is named after the class; layers of equal structure share one.
   * Default: false.
   */
  readonly functions?: boolean | readonly LayerClass[];
  /** Texts to keep in the file, by name. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** The result of `exportOnnx`. */
export interface OnnxExport {
  /** The bytes of the model's file. */
  readonly bytes: Uint8Array;
  /** The files that were written: none without `path`; the model's, and the one of external data. */
  readonly files: readonly string[];
  /** How many nodes there are of each operator, those of functions included as often as they are called. */
  readonly operators: Readonly<Record<string, number>>;
  /** How many calls there are of each function that layers became. */
  readonly functions: Readonly<Record<string, number>>;
}

/** The least and the latest version of the operators, and what the format is called that each needs. */
const FORMATS: Readonly<Record<number, number>> = { 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11, 24: 12 };
const OPSETS = Object.keys(FORMATS).map(Number);

const aName: Rule = { must: 'a text that is not empty', holds: (v) => typeof v === 'string' && v !== '' };
const NAMES = listOf(aName);
const AXES = recordOf(
  recordOf(aName, "an object of names by axes, such as { 0: 'batch' }"),
  "'batch', or an object of axes by input, such as { input: { 0: 'batch' } }",
);

const CLASSES = listOf({
  must: 'a class of layers',
  holds: (v) => typeof v === 'function' && v.prototype instanceof nn.Module,
});

const EXPORT: Rules<ExportOptions> = {
  path: aName,
  opset: integerFrom(OPSETS[0]!, OPSETS.at(-1)!),
  inputNames: NAMES,
  outputNames: NAMES,
  dynamicAxes: { must: AXES.must, holds: (v) => v === 'batch' || AXES.holds(v) },
  precision: oneOf('f32', 'f16'),
  externalData: aBoolean,
  functions: {
    must: 'a boolean, or a list of classes of layers',
    holds: (v) => typeof v === 'boolean' || CLASSES.holds(v),
  },
  metadata: recordOf(aString, 'an object of texts'),
};

/** An input of the exported model. */
interface GraphInput extends NamedTensor {
  /** The names of dynamic dimensions by their axes. */
  readonly symbols: Readonly<Record<number, string>>;
}

/**
 * A module as an ONNX model. Its forward pass is traced in evaluation mode: nothing is computed, and the module stays as it is.
 * Layers that ONNX has operators for become those; everything else is exported by what it is computed of. Parameters and
 * buffers keep their names. What `forward` decides by values or sizes is fixed, as it is in a jitted function.
 * @example
 * ```ts
 * import { nn, randn } from 'heddle';
 * import { exportOnnx } from 'heddle-onnx';
 *
 * const model = new nn.Sequential(new nn.Linear(4, 8), new nn.ReLU(), new nn.Linear(8, 2));
 * const { bytes, operators } = await exportOnnx(model, [randn([1, 4])], { dynamicAxes: 'batch' });
 * console.log(operators, bytes.length > 0); // → { Gemm: 2, Relu: 1 } true
 * ```
 * @param exampleInputs the arguments of `forward`: tensors, and arrays and records of them. Their values do not matter, their
 *   shapes and dtypes do
 * @throws ArgumentError for what ONNX cannot express, naming the layer; FileError
 */
export async function exportOnnx(
  module: nn.Module,
  exampleInputs: readonly ExampleInput[],
  options: ExportOptions = {},
): Promise<OnnxExport> {
  requireArgument('exportOnnx', 'module', module, instance(nn.Module, 'a module'));
  requireArgument('exportOnnx', 'exampleInputs', exampleInputs, aList, 'Write exportOnnx(model, [x]).');
  requireOptions('exportOnnx', options, EXPORT);
  const { opset = 21, path, externalData } = options;
  const inputs = graphInputs(exampleInputs, options);
  const { models, points } = traceAll(module, exampleInputs, inputs, opset);
  const emission = written(module, models, points, inputs, opset);
  const outputs = finish(emission, models[0]!.outputs, inputs, options.outputNames);
  await requireClaims(emission);
  const { writer } = emission;
  if (options.precision === 'f16') {
    const isSingle = (node: GraphNode): boolean => node.dtype === f32;
    await toHalf(
      writer,
      inputs.flatMap(({ name }, i) => (isSingle(models[0]!.inputs[i]!) ? [name] : [])),
      outputs.filter((_, i) => isSingle(models[0]!.outputs[i]!.node)),
    );
  }
  const operators: Record<string, number> = {};
  for (const { opType } of writer.nodes) operators[opType] = (operators[opType] ?? 0) + 1;
  const { functions = false } = options;
  const layers: LayerFunctions = functions
    ? groupByLayers(writer, functions, opset, outputs)
    : { functions: [], calls: {} };
  const total = writer.initializers.reduce(
    (sum, { dtype, shape }) => sum + shape.reduce((n, d) => n * d, dtype.bytes),
    0,
  );
  const isExternal = externalData ?? total >= MOST_BYTES;
  if (isExternal && path === undefined)
    throw new ArgumentError(
      `[exportOnnx] ${externalData ? 'external data need a path' : `the tensors have ${total} bytes, too many for one file`}. ` +
        'Give the path of the model: { path }.',
    );
  const tensors = isExternal
    ? await externalTensors(writer.initializers, path!)
    : await inlineTensors(writer.initializers);
  const model = create(ModelProtoSchema, {
    irVersion: BigInt(FORMATS[opset]!),
    producerName: 'heddle',
    opsetImport: opsetImport(opset, layers.functions.length > 0),
    functions: [...layers.functions],
    graph: {
      name: module.constructor.name,
      node: writer.nodes,
      initializer: [...tensors.protos],
      input: inputs.map(({ name }, i) => valueInfo(name, models[0]!.inputs[i]!, emission, points)),
      output: outputs.map((name, i) => valueInfo(name, models[0]!.outputs[i]!.node, emission, points)),
    },
    metadataProps: Object.entries(options.metadata ?? {}).map(([key, value]) =>
      create(StringStringEntryProtoSchema, { key, value }),
    ),
  });
  const bytes = toBinary(ModelProtoSchema, model);
  const files = path === undefined ? [] : await tensors.write(() => writeFileAtomic(path, bytes));
  return { bytes, files: path === undefined ? [] : [path, ...files], operators, functions: layers.calls };
}

/** Bytes of tensors from which on they are kept in another file: a protobuf message has less than 2³¹. */
const MOST_BYTES = 2 ** 31 - 2 ** 26;

/** The tensors among the arguments, named, and which of their dimensions are dynamic. @throws ArgumentError */
function graphInputs(
  exampleInputs: readonly ExampleInput[],
  { inputNames, dynamicAxes = {} }: ExportOptions,
): GraphInput[] {
  const found =
    exampleInputs.length === 1
      ? namedTensors('input', exampleInputs[0])
      : namedTensors('input', exampleInputs);
  const names = renamed(
    'inputNames',
    found.map(({ name }) => name),
    inputNames,
  );
  if (found.length === 0)
    throw new ArgumentError('[exportOnnx] exampleInputs has no tensor. Write exportOnnx(model, [x]).');
  if (dynamicAxes !== 'batch')
    for (const name of Object.keys(dynamicAxes))
      if (!names.includes(name))
        throw new ArgumentError(
          `[exportOnnx] dynamicAxes names '${name}', the inputs are ${names.join(', ')}.`,
        );
  const sizes = new Map<string, number>();
  return found.map(({ tensor }, i) => {
    const name = names[i]!;
    const symbols = dynamicAxes === 'batch' ? { 0: 'batch' } : (dynamicAxes[name] ?? {});
    for (const [axis, symbol] of Object.entries(symbols)) {
      const size = tensor.shape[Number(axis)];
      if (size === undefined)
        throw new ArgumentError(
          `[exportOnnx] axis ${axis} of '${name}' is to be dynamic, but its shape is (${tensor.shape.join(',')}): give axes from 0 to ${tensor.ndim - 1}.`,
        );
      if ((sizes.get(symbol) ?? size) !== size)
        throw new ArgumentError(
          `[exportOnnx] the dynamic dimension '${symbol}' is ${sizes.get(symbol)} and ${size} in the example inputs, must be the same. ` +
            'Give dimensions of their own other names.',
        );
      sizes.set(symbol, size);
    }
    return { name, tensor, symbols };
  });
}

/** The names that are given, or those that there are. @throws ArgumentError unless they are as many, and all different */
function renamed(
  option: string,
  names: readonly string[],
  given: readonly string[] | undefined,
): readonly string[] {
  if (given && given.length !== names.length)
    throw new ArgumentError(
      `[exportOnnx] ${option} has ${given.length} names, there are ${names.length} tensors: ${names.join(', ')}.`,
    );
  const all = given ?? names;
  const twice = all.find((name, i) => all.indexOf(name) !== i);
  if (twice !== undefined)
    throw new ArgumentError(
      `[exportOnnx] two tensors are called '${twice}'. Give other names: { ${option} }.`,
    );
  return all;
}

/** Trace the model with as many sizes of its dynamic dimensions as it takes to know how everything depends on them. */
function traceAll(
  module: nn.Module,
  exampleInputs: readonly ExampleInput[],
  inputs: readonly GraphInput[],
  opset: number,
): { readonly models: readonly ModelTrace[]; readonly points: readonly Point[] } {
  const examples: Record<string, number> = {};
  for (const { tensor, symbols } of inputs)
    for (const [axis, symbol] of Object.entries(symbols)) examples[symbol] = tensor.shape[Number(axis)]!;
  const whole = isWhole(opset);
  const trace = (sizes: Point): ModelTrace => {
    const shapes = inputs.map(({ tensor, symbols }) =>
      tensor.shape.map((d, axis) => (symbols[axis] === undefined ? d : sizes[symbols[axis]]!)),
    );
    return traceModel(module, exampleInputs, shapes, whole);
  };
  // First as it is given: what is wrong with the model itself is said as such.
  refuseKernels(withOrigins(() => trace(examples)));
  const choices: Record<string, Choices> = {};
  for (const [symbol, example] of Object.entries(examples))
    choices[symbol] = choose(symbol, example, (size) => trace({ ...examples, [symbol]: size }));
  const points = pointsOf(choices);
  return { models: points.map(trace), points };
}

/** Write all nodes that the outputs need. */
function written(
  module: nn.Module,
  models: readonly ModelTrace[],
  points: readonly Point[],
  inputs: readonly GraphInput[],
  opset: number,
): Emission {
  const symbols = new Map<string, DynamicDimension>();
  for (const { name, symbols: own } of inputs)
    for (const [axis, symbol] of Object.entries(own))
      symbols.set(symbol, { input: name, axis: Number(axis) });
  const names = new Map(Object.entries(module.stateDict()).map(([name, tensor]) => [tensor, name]));
  const nameOf = (tensor: AnyTensor): string | undefined => names.get(tensor);
  const emission = new Emission(models, { opset, points, symbols, nameOf }, writeNode);
  inputs.forEach(({ name }, i) => {
    emission.writer.unique(name);
    emission.traces.add(models.map((model) => model.inputs[i]!));
    emission.define(models[0]!.inputs[i]!, name);
  });
  const ends = models[0]!.outputs.map(({ node }) => node);
  // In the order of the graph, so that no chain of nodes is followed all the way back at once.
  for (const node of models[0]!.nodes)
    if (layerCallOf(node) || (node.op === 'call' && node.users > 1)) emission.value(node);
  for (const node of ends) emission.value(node);
  return emission;
}

/** Name the outputs, and drop what none of them needs. @returns their names */
function finish(
  emission: Emission,
  outputs: ModelTrace['outputs'],
  inputs: readonly GraphInput[],
  outputNames: readonly string[] | undefined,
): readonly string[] {
  const { writer } = emission;
  const names = renamed(
    'outputNames',
    outputs.map(({ name }) => name),
    outputNames,
  );
  const taken = new Set(inputs.map(({ name }) => name));
  const values = outputs.map(({ node }) => emission.value(node));
  names.forEach((name, i) => {
    if (taken.has(name))
      throw new ArgumentError(
        `[exportOnnx] an input and an output are both called '${name}'. Give others: { outputNames }.`,
      );
    writer.output(values[i]!, writer.unique(name), values.indexOf(values[i]!) === i);
  });
  writer.prune(names);
  return names;
}

/** @throws ArgumentError if `forward` makes a tensor of other values for other sizes */
async function requireClaims({ claims }: Emission): Promise<void> {
  for (const { tensor, other, where } of claims) {
    const [a, b] = await Promise.all([bytesOfTensor(tensor), bytesOfTensor(other)]);
    if (Buffer.compare(a, b) !== 0)
      throw new ArgumentError(
        `[exportOnnx] ${where} makes a tensor of values from outside that depend on a dynamic dimension. Compute it of tensors, as by ` +
          'arange, or make that dimension fixed.',
      );
  }
}

/** A tensor's name, dtype and shape, as the file describes inputs and outputs. */
function valueInfo(
  name: string,
  node: GraphNode,
  { traces }: Emission,
  points: readonly Point[],
): ValueInfoProto {
  const dim = traces.sizes(node).map((size) => ({ value: dimension(size, points) }));
  const tensorType = { elemType: ELEMENT_TYPES[node.dtype.name].code, shape: { dim } };
  return create(ValueInfoProtoSchema, { name, type: { value: { case: 'tensorType', value: tensorType } } });
}

function dimension(size: Size, points: readonly Point[]) {
  if (isFixed(size)) return { case: 'dimValue', value: BigInt(size[0]!) } as const;
  const terms = polynomialOf(size, points);
  return terms ? ({ case: 'dimParam', value: polynomialText(terms) } as const) : { case: undefined };
}
