/** Images varied at random, inside the program that trains on them. */
import { i32 } from '../core/dtype.js';
import { arange } from '../tensor/create.js';
import { rand, randint } from '../tensor/random.js';
import type { Tensor } from '../tensor/tensor.js';
import type { Augmentation } from './recipes.js';

/**
 * Each image moved by up to `shift` pixels either way along both axes, zeros coming in, and with `flip` every other one
 * mirrored.
 * @param images (N, C, H, W) · @returns the same shape
 */
export function augmented(images: Tensor, { shift = 0, flip = false }: Augmentation): Tensor {
  const [n, , height, width] = images.shape as [number, number, number, number];
  const offset = () => randint(-shift, shift + 1, [n, 1, 1, 1]);
  const rows = arange(height, { dtype: i32 }).reshape([1, 1, height, 1]).add(offset());
  const across = arange(width, { dtype: i32 }).reshape([1, 1, 1, width]).expand([n, 1, 1, width]);
  const mirrored = flip
    ? rand([n, 1, 1, 1])
        .lt(0.5)
        .where(across.mul(-1).add(width - 1), across)
    : across;
  // Positions outside of the image give 0.
  const moved = images.gather(2, rows.expand(images.shape));
  return moved.gather(3, mirrored.add(offset()).expand(images.shape));
}
