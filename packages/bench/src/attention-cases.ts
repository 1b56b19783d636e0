/** Causal attention in bf16, alone and with its gradients, also with dropout, by the names of torch_layers.py. */
import { bf16, randn, scaledDotProductAttention, type Tensor } from 'heddle';
import { compiled } from 'heddle/internal/cli/workload.js';
import type { KernelCase } from './device-cases.js';
import { gradients } from './workload.js';

/** Batch, heads, queries and features of a head. */
const SHAPES: readonly (readonly [number, number, number, number])[] = [
  [8, 12, 1024, 64],
  [4, 16, 2048, 64],
  [4, 16, 2048, 128],
  [1, 16, 8192, 128],
  [32, 4, 128, 64],
];

/** The probability that a weight is dropped in the cases with dropout, as GPT-2 and ViT are trained. */
const DROPOUT = 0.1;

/** Of tensors (B, L, H, E), as a layer has them. */
const attended =
  (dropout: number) =>
  (...sources: readonly (Tensor | undefined)[]): Tensor => {
    const [q, k, v] = sources.map((x) => x!.permute([0, 2, 1, 3]) as Tensor) as [Tensor, Tensor, Tensor];
    const result = scaledDotProductAttention(q, k, v, { isCausal: true, dropout });
    return result.permute([0, 2, 1, 3]) as Tensor;
  };

/** @param s divides the length: 1 on a GPU */
export function attentionCases(s: number): KernelCase[] {
  return SHAPES.flatMap(([batch, heads, full, width]) => {
    const length = full / s;
    const size = `${batch}x${heads}x${length}x${width} bf16`;
    const of = (): Tensor =>
      randn([batch, length, heads, width], {
        dtype: bf16,
        requiresGrad: true,
      }).realize() as unknown as Tensor;
    const three = (): Tensor[] => [of(), of(), of()];
    // A product for the scores and one for the values, of half the pairs.
    const flops = 2 * batch * heads * length * length * width;
    const named = (name: string, flops: number, prepare: KernelCase['prepare']): KernelCase => ({
      id: `${name} ${size}`.replaceAll(/[ ,]+/g, '-'),
      title: `${name} ${size}`,
      peer: `${name} ${size}`,
      flops,
      prepare,
    });
    return [0, DROPOUT].flatMap((dropout) => {
      const name = `attention causal${dropout > 0 ? `, dropout ${dropout}` : ''}`;
      return [
        named(name, flops, () =>
          compiled(
            attended(dropout),
            three().map((x) => x.detach().realize()),
          ),
        ),
        named(`${name}, gradients`, 3.5 * flops, () =>
          gradients(attended(dropout), three(), of().detach().realize()),
        ),
      ];
    });
  });
}
