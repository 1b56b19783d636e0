/** An exported graph that computes in f16, with inputs and outputs as they were. */
import { ArgumentError } from 'heddle';
import { type DType, f16, f32 } from 'heddle/internal/core/dtype.js';
import { ELEMENT_TYPES } from '../file/element-types.js';
import { type GraphWriter, type Initializer, int } from './graph-writer.js';
import { bytesOfNumbers, numbersOfBytes } from './tensor-bytes.js';

/** The largest number of f16. */
const LARGEST = 65504;

/** Inputs of operators that are f32 whatever the others are. */
const SINGLE: Readonly<Record<string, readonly number[]>> = { Resize: [1, 2] };

/**
 * Let everything that is f32 be f16: tensors, constants, and what is converted to f32. Constants beyond its range, which stand for
 * infinity, become its largest numbers.
 * @param inputs of f32 @param outputs of f32 @throws ArgumentError for weights that f16 does not have
 */
export async function toHalf(
  writer: GraphWriter,
  inputs: readonly string[],
  outputs: readonly string[],
): Promise<void> {
  const single = new Set(
    writer.nodes.flatMap(({ opType, input }) => (SINGLE[opType] ?? []).map((i) => input[i] ?? '')),
  );
  for (const [i, tensor] of writer.initializers.entries())
    if (tensor.dtype === f32 && !single.has(tensor.name)) writer.initializers[i] = await halved(tensor);
  for (const { opType, attribute } of writer.nodes)
    if (opType === 'Cast')
      for (const to of attribute)
        if (Number(to.i) === ELEMENT_TYPES.f32.code) to.i = BigInt(ELEMENT_TYPES.f16.code);
  const { nodes } = writer;
  const own = nodes.splice(0, nodes.length);
  const cast = (value: string, to: DType): string =>
    writer.add('Cast', [value], { to: int(ELEMENT_TYPES[to.name].code) });
  const half = new Map(inputs.map((name) => [name, cast(name, f16)]));
  const inner = new Map(outputs.map((name) => [name, writer.unique(`${name}_f16`)]));
  for (const node of own) {
    node.input = node.input.map((name) => half.get(name) ?? inner.get(name) ?? name);
    node.output = node.output.map((name) => inner.get(name) ?? name);
  }
  nodes.push(...own);
  for (const name of outputs) writer.output(cast(inner.get(name)!, f32), name, true);
}

async function halved({ name, shape, values }: Initializer): Promise<Initializer> {
  if (values instanceof Uint8Array) {
    const limited = numbersOfBytes(values, f32).map((v) => Math.max(-LARGEST, Math.min(LARGEST, v)));
    return { name, dtype: f16, shape, values: bytesOfNumbers(limited, f16) };
  }
  const largest = values.size === 0 ? 0 : await values.abs().max().item();
  if (largest > LARGEST)
    throw new ArgumentError(
      `[exportOnnx] ${name} has elements up to ${largest}, f16 has numbers up to ${LARGEST}. Leave { precision: 'f16' } out.`,
    );
  return { name, dtype: f16, shape, values: values.cast(f16) };
}
