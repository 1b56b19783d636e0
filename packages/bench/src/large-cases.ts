/** Products and convolutions of networks that fill a GPU, by the names of torch_large.py. Images have their channels last. */
import { bf16, conv2d, f16, f32, gelu, randn, type Tensor } from 'heddle';
import { compiled, type Workload } from 'heddle/internal/cli/workload.js';
import { type KernelCase, productCase } from './device-cases.js';
import { gradients } from './workload.js';

const STORED = { bf16, f16, tf32: f32 } as const;
type Stored = keyof typeof STORED;

/** Random values, as products in that arithmetic have them in memory. */
const random = (stored: Stored, shape: readonly number[], requiresGrad = false): Tensor =>
  randn(shape, { dtype: STORED[stored], requiresGrad }).realize() as Tensor;

// ── products ─────────────────────────────────────────────────────────────────────────────────────────────────────

type Product = readonly [m: number, k: number, n: number];

const PRODUCTS: readonly Product[] = [
  [2048, 2048, 2048],
  [4096, 4096, 4096],
  [8192, 8192, 8192],
  [8192, 1024, 4096],
  [256, 4096, 11008],
];

const productCases = (stored: Stored, sizes: Product): KernelCase => ({
  ...productCase(stored, sizes),
  peer: `gemm ${stored} ${sizes.join('x')}`,
});

/** A linear layer's product, bias and GELU. */
function activatedCase(stored: Stored, [m, k, n]: Product): KernelCase {
  const size = `${stored} ${m}x${k}x${n}`;
  return {
    id: `gelu-${size.replace(' ', '-')}`,
    title: `matmul, bias and GELU, ${size}`,
    peer: `gemm+bias+gelu ${size}`,
    flops: 2 * m * k * n,
    precision: stored,
    prepare: () =>
      compiled(
        (x, weight, bias) => gelu(x!.matmul(weight!).add(bias!)),
        [random(stored, [m, k]), random(stored, [k, n]), random(stored, [n])],
      ),
  };
}

// ── convolutions ─────────────────────────────────────────────────────────────────────────────────────────────────

interface Layer {
  readonly network: string;
  readonly batch: number;
  readonly channels: number;
  readonly side: number;
  readonly out: number;
  readonly kernel: number;
  readonly stride: number;
  readonly groups: number;
}

type Sizes = readonly [channels: number, side: number, out: number, kernel: number, stride: number];

const layersOf = (network: string, batch: number, sizes: readonly Sizes[], grouped = false): Layer[] =>
  sizes.map(([channels, side, out, kernel, stride]) => ({
    ...{ network, batch, channels, side, out, kernel, stride },
    groups: grouped ? channels : 1,
  }));

/** Every layer that differs from the others. */
const LAYERS: readonly Layer[] = [
  ...layersOf('resnet18', 256, [
    [3, 32, 64, 3, 1],
    [64, 32, 64, 3, 1],
    [64, 32, 128, 3, 2],
    [64, 32, 128, 1, 2],
    [128, 16, 128, 3, 1],
    [128, 16, 256, 3, 2],
    [256, 8, 256, 3, 1],
    [256, 8, 512, 3, 2],
    [512, 4, 512, 3, 1],
  ]),
  ...layersOf('resnet50', 64, [
    [3, 224, 64, 7, 2],
    [64, 56, 64, 1, 1],
    [64, 56, 64, 3, 1],
    [64, 56, 256, 1, 1],
    [256, 56, 128, 1, 1],
    [128, 56, 128, 3, 2],
    [128, 28, 512, 1, 1],
    [256, 56, 512, 1, 2],
    [128, 28, 128, 3, 1],
    [512, 28, 256, 1, 1],
    [256, 28, 256, 3, 2],
    [256, 14, 1024, 1, 1],
    [256, 14, 256, 3, 1],
    [1024, 14, 512, 1, 1],
    [512, 7, 512, 3, 1],
    [512, 7, 2048, 1, 1],
  ]),
  ...layersOf(
    'depthwise',
    64,
    [
      [96, 56, 96, 3, 1],
      [144, 56, 144, 3, 2],
      [384, 14, 384, 3, 1],
      [96, 56, 96, 7, 1],
    ],
    true,
  ),
];

const channelsLast = (x: Tensor): Tensor => x.permute([0, 3, 1, 2]) as Tensor;

function convolutionCases(stored: Stored, layer: Layer): KernelCase[] {
  const { network, batch, channels, side, out, kernel, stride, groups } = layer;
  const outSide = Math.ceil(side / stride);
  const shapes = {
    x: [batch, side, side, channels],
    weight: [out, kernel, kernel, channels / groups],
    y: [batch, outSide, outSide, out],
  };
  const padding = Math.floor(kernel / 2);
  const apply = (x: Tensor, weight: Tensor): Tensor =>
    conv2d(channelsLast(x), channelsLast(weight), undefined, { stride, padding, groups }).permute([
      0, 2, 3, 1,
    ]) as Tensor;
  const size = `${batch}x${channels}x${side}x${side}`;
  const named = (what: string, prepare: () => Workload): KernelCase => ({
    id: `conv-${stored}-${network}-${size}-${out}-k${kernel}-s${stride}-${what}`,
    title: `${network} ${size} → ${out}, ${kernel}×${kernel}, stride ${stride}, ${what}, ${stored}`,
    peer: `conv ${what} ${stored} ${network} ${size} -> ${out} k${kernel} s${stride} g${groups}`,
    flops: (2 * batch * outSide ** 2 * out * channels * kernel ** 2) / groups,
    precision: stored,
    prepare,
  });
  const operands = (needed?: 'x' | 'weight') => ({
    x: random(stored, shapes.x, needed === 'x'),
    weight: random(stored, shapes.weight, needed === 'weight'),
  });
  return [
    named('fwd', () => {
      const { x, weight } = operands();
      return compiled((a, b) => apply(a!, b!), [x, weight]);
    }),
    // The images of a first layer need no gradient.
    ...(['x', 'weight'] as const)
      .filter((needed) => needed === 'weight' || channels > 3)
      .map((needed) =>
        named(needed === 'x' ? 'dgrad' : 'wgrad', () => {
          const { x, weight } = operands(needed);
          return gradients(() => apply(x, weight), [needed === 'x' ? x : weight], random(stored, shapes.y));
        }),
      ),
  ];
}

export const LARGE_CASES: readonly KernelCase[] = [
  ...(['bf16', 'f16', 'tf32'] as const).flatMap((stored) =>
    PRODUCTS.map((sizes) => productCases(stored, sizes)),
  ),
  ...(['bf16', 'f16'] as const).map((stored) => activatedCase(stored, [4096, 4096, 4096])),
  ...(['bf16', 'tf32'] as const).flatMap((stored) =>
    LAYERS.flatMap((layer) => convolutionCases(stored, layer)),
  ),
];
