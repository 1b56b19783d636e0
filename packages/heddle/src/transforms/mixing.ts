/** Batches whose images are mixed, and their targets with them. Sources: torchvision.transforms.v2. */
import {
  above,
  aList,
  instance,
  integerFrom,
  type Rules,
  requireArgument,
  requireOptions,
} from '../core/arguments.js';
import { type DTypeName, f32, isFloat } from '../core/dtype.js';
import { ArgumentError, ShapeError } from '../core/errors.js';
import { PhiloxStream } from '../core/philox.js';
import { formatShape, type Shape, sameShape } from '../core/shape.js';
import { requireFloat, requireRank, requireTensor } from '../tensor/checks.js';
import { oneHot } from '../tensor/functional-layers.js';
import type { AnyTensor, Tensor } from '../tensor/tensor.js';
import { betaOf, betaTable } from './beta.js';
import { DeviceDraws, DevicePixels } from './device-pixels.js';
import { inPart } from './erasing.js';
import { HostDraws } from './host-pixels.js';
import type { Draws, Pixels } from './pixels.js';
import { type HostImage, hostPixels, requireImage } from './transform.js';

/** Options of `mixUp` and `cutMix`. */
export interface MixOptions {
  /** Of the distribution Beta(α, α) of the share that an image keeps (default 1: uniform). */
  readonly alpha?: number;
  /** How many classes there are: for targets that are class labels. */
  readonly numClasses?: number;
}

const MIX: Rules<MixOptions> = { alpha: above(0), numClasses: integerFrom(1) };

/** A batch mixed with itself, moved on by one image, on a device or on the host; one share for the whole batch. */
export interface Mix {
  /**
   * In a jitted function it becomes part of the program. The loss must take class probabilities, as `crossEntropy` does.
   * @param images floats (N, C, H, W)
   * @param targets labels, i32 (N), or class probabilities, floats (N, classes)
   * @returns images, and class probabilities (N, classes): f32 of labels
   * @throws ShapeError, DTypeError, ArgumentError
   */
  <D extends DTypeName>(images: Tensor<Shape, D>, targets: AnyTensor): [Tensor<Shape, D>, Tensor];
  /**
   * On the host.
   * @param images of one shape
   * @param targets a label, or class probabilities, for each of them
   */
  images(
    images: readonly HostImage[],
    targets: readonly (number | Float32Array)[],
    random: PhiloxStream,
  ): { readonly images: (HostImage & { readonly data: Float32Array })[]; readonly targets: Float32Array[] };
}

interface MixDefinition {
  /** @returns the image, and the share of its target that is its own */
  mix<P extends Pixels<P>>(image: P, other: P, random: Draws<P>): { readonly image: P; readonly share: P };
}

function mixing(op: string, { numClasses }: MixOptions, { mix }: MixDefinition): Mix {
  const unknown = (): ArgumentError =>
    new ArgumentError(
      `[${op}] targets are labels: say how many classes there are, as in ${op}({ numClasses: 10 }).`,
    );
  const onDevice = <D extends DTypeName>(
    images: Tensor<Shape, D>,
    targets: AnyTensor,
  ): [Tensor<Shape, D>, Tensor] => {
    requireRank(op, 'images', images, 4, '(N,C,H,W)');
    requireFloat(op, 'images', images);
    requireTensor(op, 'targets', targets);
    const isLabels = !isFloat(targets.dtype);
    if (targets.ndim !== (isLabels ? 1 : 2) || targets.shape[0] !== images.shape[0])
      throw new ShapeError(
        `[${op}] targets are ${targets.dtype.name} ${formatShape(targets.shape)}, must be labels (${images.shape[0]}) or floats (${images.shape[0]}, classes).`,
      );
    if (isLabels && numClasses === undefined) throw unknown();
    const own = new DevicePixels(images.cast(f32));
    const { image, share } = mix(own, new DevicePixels(own.values.roll(1, 0)), new DeviceDraws(1));
    const given: AnyTensor = isLabels ? oneHot(targets, numClasses!) : targets;
    const part = share.values.reshape([1, 1]).cast(given.dtype);
    const mixed = given.mul(part).add(given.roll(1, 0).mul(part.neg().add(1)));
    return [image.values.cast(images.dtype), mixed as Tensor];
  };
  const onHost: Mix['images'] = (images, targets, random) => {
    requireArgument(op, 'images', images, aList);
    requireArgument(op, 'targets', targets, aList);
    requireArgument(op, 'random', random, instance(PhiloxStream, 'a PhiloxStream'));
    images.forEach((image, i) => {
      requireImage(op, `image ${i}`, image);
    });
    const stray = images.find(({ shape }) => !sameShape(shape, images[0]!.shape));
    if (stray || targets.length !== images.length)
      throw new ShapeError(
        stray
          ? `[${op}] images of ${formatShape(images[0]!.shape)} and ${formatShape(stray.shape)}: they must be of one shape.`
          : `[${op}] ${images.length} images and ${targets.length} targets: there must be as many.`,
      );
    const given = targets.map((target) => {
      if (typeof target !== 'number') return target;
      if (numClasses === undefined) throw unknown();
      return Float32Array.from({ length: numClasses }, (_, c) => (c === target ? 1 : 0));
    });
    const pixels = images.map(hostPixels);
    // One draw for the batch: every image asks for the same numbers.
    const start = random.position;
    const mixed = pixels.map((image, i) => {
      random.position = start;
      return mix(image, pixels.at(i - 1)!, new HostDraws(random));
    });
    return {
      images: mixed.map(({ image }, i) => ({ data: image.data, shape: images[i]!.shape })),
      targets: mixed.map(({ share }, i) => {
        const part = share.data[0]!;
        return given[i]!.map((value, c) => value * part + given.at(i - 1)![c]! * (1 - part));
      }),
    };
  };
  return Object.assign(onDevice, { images: onHost });
}

/**
 * Each image and the one before it, added: λ·image + (1 − λ)·other, and so their targets, with λ of Beta(α, α): H. Zhang et al.,
 * mixup: beyond empirical risk minimization (2018).
 * @example
 * const mix = transforms.mixUp({ alpha: 0.2, numClasses: 10 });
 * const [images, targets] = mix(rand([8, 3, 32, 32]), randint(0, 10, [8]));
 * const loss = crossEntropy(randn([8, 10]), targets);
 */
export function mixUp(options: MixOptions = {}): Mix {
  requireOptions('mixUp', options, MIX);
  const { alpha = 1 } = options;
  const table = betaTable(alpha);
  return mixing('mixUp', options, {
    mix: (image, other, random) => {
      const share = betaOf(random.uniform(), alpha, table);
      return { image: image.mul(share).add(other.mul(share.mul(-1).add(1))), share };
    },
  });
}

/**
 * A part of each image taken from the one before it, and as large a share of its target: S. Yun et al., CutMix: regularization
 * strategy to train strong classifiers with localizable features (2019).
 */
export function cutMix(options: MixOptions = {}): Mix {
  requireOptions('cutMix', options, MIX);
  const { alpha = 1 } = options;
  const table = betaTable(alpha);
  return mixing('cutMix', options, {
    mix: (image, other, random) => {
      const { height, width } = image;
      const half = betaOf(random.uniform(), alpha, table).mul(-1).add(1).maximum(0).sqrt().mul(0.5);
      const ends = (size: number) => {
        const middle = random.uniform().mul(size).floor();
        const reach = half.mul(size).floor();
        return [middle.sub(reach).maximum(0), middle.add(reach).minimum(size)] as const;
      };
      const [left, right] = ends(width);
      const [top, bottom] = ends(height);
      const part = { top, left, height: bottom.sub(top), width: right.sub(left) };
      const covered = part.height.mul(part.width).div(height * width);
      return { image: inPart(image, part).where(other, image), share: covered.mul(-1).add(1) };
    },
  });
}
