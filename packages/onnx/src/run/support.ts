/** Which operators of a model the library computes. */
import type { ModelFile } from '../file/model-file.js';
import { OPERATORS } from '../operators/table.js';

/** Whether nodes of an operator, by its name with its domain, are computed in a model. */
export function supportOf({ model }: ModelFile): (name: string) => boolean {
  const functions = new Set(
    model.functions.map(({ domain, name }) => (domain === '' ? name : `${domain}.${name}`)),
  );
  const opsets = new Map(
    model.opsetImport.map(({ domain, version }) => [domain === 'ai.onnx' ? '' : domain, Number(version)]),
  );
  return (name) => {
    if (functions.has(name)) return true;
    const opset = opsets.get(name.slice(0, Math.max(0, name.lastIndexOf('.'))));
    const record = Object.hasOwn(OPERATORS, name) ? OPERATORS[name] : undefined;
    return record !== undefined && opset !== undefined && record.since.some((version) => version <= opset);
  };
}
