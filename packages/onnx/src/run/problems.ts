/** What is wrong with a model's file: everything that can be told, at once. */
import { HeddleError } from 'heddle';
import { ExternalData } from '../file/external-data.js';
import type { ModelFile } from '../file/model-file.js';
import { readHeader, readTensor } from '../file/tensor-values.js';
import { describe } from './describe.js';
import { supportOf } from './support.js';

/** The problems, a sentence each. */
export async function problemsOf(file: ModelFile): Promise<string[]> {
  const problems: string[] = [];
  const attempt = async (body: () => unknown): Promise<void> => {
    try {
      await body();
    } catch (error) {
      if (!(error instanceof HeddleError)) throw error;
      problems.push(withoutPath(error.message, file.path));
    }
  };
  await attempt(() => unsupported(file, problems));
  const external = new ExternalData(file.path, file.folder);
  try {
    for (const [i, proto] of file.model.graph!.initializer.entries())
      await attempt(async () => {
        readHeader(proto, file.path, `initializer ${i}`);
        await readTensor(proto, { path: file.path, external }, `initializer ${i}`);
      });
  } finally {
    await external.close();
  }
  problems.push(...misnamed(file));
  return problems;
}

/** An error's message without the file that it begins with. */
export const withoutPath = (message: string, path: string): string =>
  message.startsWith(`${path}: `) ? message.slice(path.length + 2) : message;

function unsupported(file: ModelFile, problems: string[]): void {
  const isSupported = supportOf(file);
  for (const { name, count } of describe(file).operators)
    if (!isSupported(name))
      problems.push(`the operator ${name}, of ${count} ${count === 1 ? 'node' : 'nodes'}, is not supported.`);
}

/** Values of the graph itself that are used before they are there, or given twice. */
function misnamed({ model }: ModelFile): string[] {
  const { node, input, output, initializer } = model.graph!;
  const known = new Set([...input, ...initializer].map(({ name }) => name));
  const problems: string[] = [];
  for (const [i, { name, opType, input: taken, output: given }] of node.entries()) {
    const where = name === '' ? `node ${i} (${opType})` : `node '${name}' (${opType})`;
    for (const value of taken)
      if (value !== '' && !known.has(value))
        problems.push(`${where} takes '${value}', which nothing before it gives.`);
    for (const value of given) {
      if (value === '') continue;
      if (known.has(value)) problems.push(`${where} gives '${value}', which is there already.`);
      known.add(value);
    }
  }
  for (const { name } of output) if (!known.has(name)) problems.push(`nothing gives the output '${name}'.`);
  return problems;
}
