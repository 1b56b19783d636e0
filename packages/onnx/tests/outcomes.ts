/** What became of every node case, and the page that tells it: docs/reference/onnx.md. */
import { fromBinary } from '@bufbuild/protobuf';
import { OPERATORS } from '../src/operators/table.js';
import { ModelProtoSchema } from '../src/protobuf/onnx_pb.js';
import { failureOf, HEADER, type NodeCase, nodeCases } from './node-cases.js';

/** Cases that fail for a reason of their own. */
const EXCEPTIONS: Readonly<Record<string, string>> = {
  test_top_k_uint64:
    'u64 has no tensors: it is computed where movement and arithmetic on the host are enough',
  ...Object.fromEntries(
    ['test_dft_inverse', 'test_dft_inverse_opset19'].map((name) => [
      name,
      'what is 0 but for rounding differs by 2e-7',
    ]),
  ),
  ...Object.fromEntries(
    ['test_bernoulli', 'test_bernoulli_double', 'test_bernoulli_seed']
      .flatMap((name) => [name, `${name}_expanded`])
      .map((name) => [name, 'the random numbers are those of another generator']),
  ),
  ...Object.fromEntries(
    [
      'test_attention_3d_causal_bf16',
      'test_attention_4d_attn_mask_causal_bf16',
      'test_attention_4d_causal_bf16',
      'test_attention_4d_causal_fp16',
      'test_attention_4d_causal_padded_kv_bf16',
      'test_attention_4d_padded_kv_bf16',
    ]
      .flatMap((name) => [name, `${name}_expanded`])
      .map((name) => [
        name,
        'the last bit of a 16-bit float differs: a fused chain of operators is rounded once',
      ]),
  ),
};

/** Reasons that errors give, by what their message has. */
const REASONS: readonly (readonly [text: string, reason: string])[] = [
  ['uses operators that are not supported', 'an operator is not supported'],
  ['does not compute with', 'an element type is not supported'],
  ['opsets 7 to', 'the opset is older than 7'],
  ['training_mode is not supported', 'training within the model is not supported'],
];

/** One case and what became of it. */
export interface Outcome {
  readonly name: string;
  /** The operator that the case is about. */
  readonly operator: string;
  /** Undefined if it passes. */
  readonly reason: string | undefined;
  /** A failure that no reason explains. */
  readonly failure: string | undefined;
}

/** Run all cases, on tensors of the device and on values of the host. */
export async function outcomes(): Promise<Outcome[]> {
  const cases = nodeCases();
  const operators = new Map(cases.map((c) => [c.name, operatorOf(c)]));
  const found: Outcome[] = [];
  for (const c of cases) {
    const base = c.name.replace(/_expanded.*$/, '');
    const operator = operators.get(base) ?? operators.get(c.name)!;
    found.push({ name: c.name, operator, ...(await outcomeOf(c)) });
  }
  return found;
}

function operatorOf({ model }: NodeCase): string {
  const { node } = fromBinary(ModelProtoSchema, model).graph!;
  const last = node.at(-1)!;
  return last.domain === '' ? last.opType : `${last.domain}.${last.opType}`;
}

async function outcomeOf(c: NodeCase): Promise<Pick<Outcome, 'reason' | 'failure'>> {
  const wrong = (await trial(c, 'device')) ?? (await trial(c, 'host'));
  const expected = EXCEPTIONS[c.name];
  if (wrong === undefined)
    return { reason: undefined, failure: expected && 'passes, and is listed as one that does not' };
  if (expected !== undefined) return { reason: expected, failure: undefined };
  const reason = REASONS.find(([text]) => wrong.includes(text))?.[1];
  return { reason: reason ?? 'fails', failure: reason === undefined ? wrong : undefined };
}

async function trial(c: NodeCase, side: 'device' | 'host'): Promise<string | undefined> {
  try {
    return await failureOf(c, side);
  } catch (error) {
    return `${side}: ${(error as Error).message}`;
  }
}

/** The page of the documentation. */
export function pageOf(found: readonly Outcome[]): string {
  const passed = found.filter(({ reason }) => reason === undefined).length;
  const names = [...new Set([...Object.keys(OPERATORS), ...found.map((o) => o.operator)])].sort();
  const row = (name: string): string => {
    const of = found.filter((o) => o.operator === name);
    const passing = of.filter((o) => o.reason === undefined).length;
    const why = [...new Set(of.flatMap(({ reason }) => (reason === undefined ? [] : [reason])))].join('; ');
    return `| ${name} | ${OPERATORS[name]!.since.join(', ')} | ${of.length === 0 ? '–' : `${passing} of ${of.length}`} | ${why} |`;
  };
  const supported = names.filter((name) => name in OPERATORS);
  const missing = names.filter((name) => !(name in OPERATORS));
  const counts = missing.map((name) => `${name} (${found.filter((o) => o.operator === name).length})`);
  return `# ONNX operators

The operators that [heddle-onnx](../guide/onnx.md) imports, at which versions of the operator sets, and how many of the node
tests of the Python package \`onnx\` ${HEADER.onnx} pass: **${passed} of ${found.length}**. Each case runs twice, on tensors and,
where an operator works there, on values of the host. The test suite makes this page and fails if it is not up to date.

A version is listed if the standard changed the operator there; a model of any opset from 7 to ${HEADER.opset} is of the newest
version that is not newer than its opset. Cases of a function's expansion count for the function.
Operators of \`com.microsoft\` and SimplifiedLayerNormalization are ONNX Runtime's own, which its optimizers write; other tests compare
them with its answers.

| operator | versions | cases | those that do not pass |
|---|---|--:|---|
${supported.map(row).join('\n')}

Not supported, with the number of their cases: ${counts.join(', ')}.
`;
}
