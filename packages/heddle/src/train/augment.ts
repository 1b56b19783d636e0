/** How recipes vary images, inside the program that trains on them. */
import type { Tensor } from '../tensor/tensor.js';
import { compose, randomCrop, randomHorizontalFlip } from '../transforms/index.js';
import type { Augmentation } from './recipes.js';

/**
 * Each image moved by up to `shift` pixels either way along both axes, zeros coming in, and with `flip` every other one
 * mirrored.
 * @param images (N, C, H, W) · @returns the same shape
 */
export function augmented(images: Tensor, { shift = 0, flip = false }: Augmentation): Tensor {
  const [height, width] = images.shape.slice(2) as [number, number];
  const vary = compose([
    ...(shift > 0 ? [randomCrop([height, width], { padding: shift })] : []),
    ...(flip ? [randomHorizontalFlip()] : []),
  ]);
  return vary(images);
}
