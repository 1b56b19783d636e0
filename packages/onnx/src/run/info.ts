/** `heddle onnx info`: what is in a model. */
import { table, whole } from 'heddle/internal/cli/format.js';
import { readModel } from '../file/model-file.js';
import { type DescribedOperator, type DescribedValue, type Description, describe } from './describe.js';
import { supportOf } from './support.js';

/** @param say prints a line @throws FileError */
export async function info(path: string, json: boolean, say: (line: string) => void): Promise<void> {
  const file = await readModel(path);
  const isSupported = supportOf(file);
  const found = describe(file);
  const operators = found.operators.map((operator) => ({
    ...operator,
    supported: isSupported(operator.name),
  }));
  const description = { ...found, operators };
  if (json) say(JSON.stringify(description, null, 2));
  else for (const line of linesOf(path, description)) say(line);
}

type Supported = Omit<Description, 'operators'> & {
  readonly operators: readonly (DescribedOperator & { readonly supported: boolean })[];
};

function linesOf(path: string, model: Supported): string[] {
  const opsets = Object.entries(model.opsets).map(([domain, version]) => `${domain} ${version}`);
  const facts: Record<string, string> = {
    file: `${path}, ${bytes(model.bytes)}`,
    name: model.name,
    producer: model.producer,
    opset: `${opsets.join(', ')} (IR ${model.irVersion})`,
    weights: `${whole(model.parameters)} elements in ${whole(model.tensors)} tensors, ${bytes(model.parameterBytes)}`,
    external: model.externalFiles.join(', '),
    functions: model.functions.join(', '),
  };
  const named = Object.entries(facts).flatMap(([key, text]) =>
    text === '' ? [] : [`${key.padEnd(11)}${text}`],
  );
  const metadata = Object.entries(model.metadata).map(([key, text]) => `  ${key}: ${text}`);
  return [
    ...named,
    ...(metadata.length > 0 ? ['metadata', ...metadata] : []),
    '',
    ...model.inputs.map((value) => `input      ${valueText(value)}`),
    ...model.outputs.map((value) => `output     ${valueText(value)}`),
    '',
    table(
      ['operator', 'nodes', 'supported'],
      model.operators.map(({ name, count, supported }) => [name, whole(count), supported ? 'yes' : 'no']),
    ),
  ];
}

const valueText = ({ name, dtype, shape }: DescribedValue): string =>
  `${name}  ${dtype} ${shape ? `(${shape.join(', ')})` : 'of any shape'}`;

/** 1234567 → 1.18 MiB */
export function bytes(n: number): string {
  const power = n < 1024 ? 0 : Math.min(4, Math.floor(Math.log2(n) / 10));
  return power === 0 ? `${n} B` : `${(n / 1024 ** power).toFixed(2)} ${' KMGT'[power]}iB`;
}
