/** A vision transformer (Dosovitskiy et al., An image is worth 16×16 words, 2021), small enough for small images. */
import type { Shape } from '../core/shape.js';
import * as nn from '../nn/index.js';
import { randn } from '../tensor/random.js';
import type { Tensor } from '../tensor/tensor.js';

/** The sizes of a vision transformer. */
export interface ViTSizes {
  /** Pixels of a side of the images, and of a patch, which divides it. */
  readonly image: number;
  readonly patch: number;
  readonly channels: number;
  readonly classes: number;
  /** Numbers that stand for a patch; `heads` divides it. */
  readonly dim: number;
  readonly heads: number;
  readonly depth: number;
}

/** Patches as vectors, a transformer over them, and the mean of what it makes of them. */
export class ViT extends nn.Module {
  readonly patches: nn.Conv2d;
  /** (patches, dim): what is added to each patch for its place. */
  readonly positions: Tensor<Shape, 'f32'>;
  readonly encoder: nn.TransformerEncoder;
  readonly head: nn.Linear;

  constructor({ image, patch, channels, classes, dim, heads, depth }: ViTSizes) {
    super();
    this.patches = new nn.Conv2d(channels, dim, patch, { stride: patch });
    this.positions = randn([(image / patch) ** 2, dim])
      .mul(0.02)
      .detach()
      .realize();
    this.positions.requiresGrad = true;
    const layer = (): nn.TransformerEncoderLayer =>
      new nn.TransformerEncoderLayer(dim, heads, {
        ...{ dimFeedforward: 4 * dim, activation: 'gelu', normFirst: true },
        ...{ batchFirst: true, dropout: 0.1 },
      });
    this.encoder = new nn.TransformerEncoder(layer, depth, { norm: new nn.LayerNorm(dim) });
    this.head = new nn.Linear(dim, classes);
  }

  /** @param x (N, channels, image, image) · @returns logits (N, classes) */
  forward(x: Tensor): Tensor {
    const tokens = this.patches.forward(x).flatten(2).transpose(1, 2).add(this.positions);
    return this.head.forward(this.encoder.forward(tokens).mean(1));
  }
}
