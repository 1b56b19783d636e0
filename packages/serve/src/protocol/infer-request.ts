/** A request for inference, checked against its model: what REST and gRPC have in common. */
import { nearest, shown } from 'heddle/internal/core/arguments.js';
import { invalid } from '../errors.js';
import { DATATYPES, type Datatype, recordOf } from './datatypes.js';
import { formatSpec, type ModelSpec, type TensorSpec } from './model-spec.js';

/** A tensor of a request, as its protocol has it: nothing is known to be right. */
export interface GivenTensor {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  /** Its elements, once datatype and shape are known to fit. @param count how many there must be */
  readonly bytes: (spec: TensorSpec, count: number) => Uint8Array;
  /** Its elements, if they are BYTES. @throws ServiceError */
  readonly strings: () => readonly Uint8Array[];
}

/** The inputs of a request, in the order of the model's. */
export interface CheckedInputs {
  /** Of each input: its elements, row by row. */
  readonly bytes: readonly Uint8Array[];
  /** Of each input: its shape; in a batched model without the batch. */
  readonly shapes: readonly (readonly number[])[];
  /** Rows of the batch; 1 if the model is not batched. */
  readonly rows: number;
  /** Asks for the evidence for this class in one image, in place of the outputs. */
  readonly target?: number;
}

/** @throws ServiceError unless these are the model's inputs, each once */
export function checkInputs(
  { inputs, batched }: ModelSpec,
  given: readonly GivenTensor[],
  maxBatchSize: number,
): CheckedInputs {
  const ordered = inputs.map(({ name }) => {
    const found = given.filter((tensor) => tensor.name === name);
    if (found.length !== 1)
      throw invalid(
        found.length === 0
          ? `the input '${name}' is missing. Inputs of the model: ${namesOf(inputs)}.`
          : `the input '${name}' is given ${found.length} times, must be given once.`,
      );
    return found[0]!;
  });
  if (given.length > inputs.length) throw unknownTensor('input', given, inputs);
  let rows: number | undefined;
  const shapes: (readonly number[])[] = [];
  const bytes = ordered.map((tensor, i) => {
    const spec = inputs[i]!;
    checkType(tensor, spec);
    const own = batched ? tensor.shape[0]! : 1;
    if (rows !== undefined && own !== rows)
      throw invalid(
        `the batches differ: '${inputs[0]!.name}' has ${rows} rows and '${spec.name}' ${own}. All inputs need the same number.`,
      );
    if (own < 1 || own > maxBatchSize)
      throw invalid(
        `the input '${spec.name}' has ${own} rows, must have from 1 to ${maxBatchSize}: that is the model's largest batch.`,
      );
    rows = own;
    shapes.push(batched ? tensor.shape.slice(1) : tensor.shape);
    const values = tensor.bytes(spec, countOf(tensor.shape));
    checkValues(spec, values);
    return values;
  });
  return { bytes, shapes, rows: rows ?? 1 };
}

/** How many elements a tensor has that was found to fit. */
const countOf = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);

/** The most elements of a tensor: beyond it, sizes in bytes are not exact. */
const MOST_ELEMENTS = 2 ** 40;

function checkType({ name, datatype, shape }: GivenTensor, spec: TensorSpec): void {
  if (datatype !== spec.datatype) {
    const known = Object.hasOwn(DATATYPES, datatype) || datatype === 'BYTES';
    throw invalid(
      `the input '${name}' is ${known ? datatype : shown(datatype)}, the model takes ${spec.datatype}.` +
        (known ? '' : ` Datatypes: ${Object.keys(DATATYPES).join(', ')}.`),
    );
  }
  const fits =
    shape.length === spec.shape.length &&
    shape.every(
      (size, i) =>
        Number.isSafeInteger(size) && size >= 0 && (spec.shape[i] === -1 || size === spec.shape[i]),
    );
  if (!fits)
    throw invalid(
      `the input '${name}' has the shape ${formatSpec(shape)}, the model takes ${formatSpec(spec.shape)}` +
        `${spec.shape.includes(-1) ? ', where −1 is any size' : ''}.`,
    );
  if (countOf(shape) > MOST_ELEMENTS)
    throw invalid(`the input '${name}' has the shape ${formatSpec(shape)}, more than 2^40 elements.`);
}

/** @throws ServiceError for bytes that are no value of the input */
function checkValues({ name, datatype, below }: TensorSpec, bytes: Uint8Array): void {
  if (datatype === 'BOOL') {
    const at = bytes.findIndex((byte) => byte > 1);
    if (at >= 0)
      throw invalid(`the input '${name}' has the byte ${bytes[at]} at ${at}, a BOOL must be 0 or 1.`);
  }
  if (below === undefined) return;
  const { bytes: size, read } = recordOf(datatype);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at < bytes.byteLength; at += size) {
    const value = Number(read(view, at));
    if (value < 0 || value >= below)
      throw invalid(
        `the input '${name}' has the value ${value} at ${at / size}, must be from 0 to ${below - 1}.`,
      );
  }
}

/** @throws ServiceError unless the bytes of a tensor are as many as its shape asks for */
export function requireLength(name: string, datatype: Datatype, count: number, length: number): void {
  const { bytes } = recordOf(datatype);
  if (length !== count * bytes)
    throw invalid(
      `the binary data of '${name}' have ${length} bytes, must have ${count * bytes}: ${count} elements of ${datatype}.`,
    );
}

/** The places of the outputs that are asked for; of all if none is named. @throws ServiceError */
export function chosenOutputs(
  { outputs }: ModelSpec,
  names: readonly string[] | undefined,
): readonly number[] {
  if (names === undefined || names.length === 0) return outputs.map((_, i) => i);
  return names.map((name, i) => {
    const place = outputs.findIndex((output) => output.name === name);
    if (place < 0) throw unknownTensor('output', [{ name }], outputs);
    if (names.indexOf(name) !== i) throw invalid(`the output '${name}' is asked for twice.`);
    return place;
  });
}

const namesOf = (specs: readonly TensorSpec[]): string => specs.map(({ name }) => `'${name}'`).join(', ');

function unknownTensor(
  kind: 'input' | 'output',
  given: readonly { readonly name: string }[],
  specs: readonly TensorSpec[],
): Error {
  const known = specs.map(({ name }) => name);
  const name = given.find((tensor) => !known.includes(tensor.name))!.name;
  const near = nearest(name, known);
  return invalid(
    `the model has no ${kind} ${shown(name)}.${near === undefined ? '' : ` Did you mean '${near}'?`} ` +
      `${kind === 'input' ? 'Inputs' : 'Outputs'} of the model: ${namesOf(specs)}.`,
  );
}
