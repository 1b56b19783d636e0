/**
 * Where a network looks: Grad-CAM (R. R. Selvaraju et al., Grad-CAM: visual explanations from deep networks via
 * gradient-based localization, 2017).
 */
import { ArgumentError, grad, type nn, oneHot, realize, type Tensor, tensor } from 'heddle';
import { topological } from 'heddle/internal/core/node.js';
import { like, withoutGradients } from 'heddle/internal/graph/build.js';
import { callOf } from 'heddle/internal/graph/fused-op.js';
import { vjp } from 'heddle/internal/graph/grad.js';
import { argOf, type GraphNode } from 'heddle/internal/graph/node.js';
import { nodeOf, tensorOf } from 'heddle/internal/tensor/tracing.js';
import type { PictureOptions } from './chart.js';
import {
  batchOf,
  isConvolution,
  judged,
  type LayerCall,
  layerNamed,
  traceCalls,
  valuesOf,
} from './layers.js';
import { percent } from './numbers.js';
import { enlarged, heated, magnified, pngOf, rasterOf } from './raster.js';
import { tilesSvg } from './tiles.js';

/** Options of `gradCam`. */
export interface GradCamOptions {
  /**
   * The dotted name of a layer that gives maps (N, C, H, W). Default: the last convolution that the model calls; of a model without
   * layers, such as one of an ONNX file, the last one that it computes.
   */
  readonly layer?: string | undefined;
  /** Whose evidence is asked for, a class for each image. Default: the class that the model takes the image for. */
  readonly targets?: readonly number[];
}

/** Grad-CAM of an image. */
export interface GradCam {
  /** height × width, from 0 to 1: the largest value of a map is 1, unless nothing speaks for the class. */
  readonly map: Float32Array;
  /** Of the map: that of the layer's, which may be smaller than the image's. */
  readonly height: number;
  /** Of the map. */
  readonly width: number;
  /** Whose evidence it is. */
  readonly target: number;
  /** The probability that the model gives to it. */
  readonly probability: number;
  /** The layer's name. */
  readonly layer: string;
}

/**
 * Where in images a network finds the evidence for a class: relu(Σₖ αₖ Aₖ) of the layer's maps Aₖ, with αₖ the mean over
 * the map of the gradient of the class's logit (R. Selvaraju et al., Grad-CAM: visual explanations from deep networks via
 * gradient-based localization, 2017). The model computes in evaluation mode, and gradients of its parameters stay as they are.
 * @param model gives logits (N, classes); of one logit per example the classes are 0 and 1
 * @param images floats (C, H, W) or (N, C, H, W), normalized as the model takes them
 * @returns one for each image
 * @throws ArgumentError for a layer that the model does not have or does not call, or that gives no maps (N, C, H, W), and for
 * targets that are not one class for each image
 */
export async function gradCam(
  model: nn.Layer,
  images: Tensor,
  options: GradCamOptions = {},
): Promise<GradCam[]> {
  const { layer: name, targets } = options;
  const batch = batchOf('gradCam', images);
  const asked = name === undefined ? undefined : layerNamed('gradCam', model, name);
  return judged(model, async () => {
    const { calls, output } = traceCalls(model, batch, (m) => (asked ? m === asked : isConvolution(m)));
    const logits = await rowsOf(output);
    const classes = logits[0]!.length;
    const isClass = (c: number): boolean => Number.isInteger(c) && c >= 0 && c < classes;
    if (targets && (targets.length !== logits.length || !targets.every(isClass)))
      throw new ArgumentError(
        `[gradCam] targets is [${targets.join(', ')}], must be a class from 0 to ${classes - 1} for each of ${logits.length} images.`,
      );
    const wanted = logits.map((row, i) => targets?.[i] ?? row.indexOf(Math.max(...row)));
    const chosen = oneHot(tensor(Int32Array.from(wanted)), classes);
    const found =
      calls.length > 0 || name !== undefined
        ? ofLayer(model, batch, calls, name, chosen)
        : ofGraph(model, batch, chosen);
    const { maps, gradient } = found;
    const weights = gradient.mean([2, 3], { keepdim: true });
    const values = await valuesOf(maps.mul(weights).sum(1).relu());
    const [n, , height, width] = maps.shape as [number, number, number, number];
    return Array.from({ length: n }, (_, i) => {
      const own = values.subarray(i * height * width, (i + 1) * height * width);
      const most = own.reduce((a, b) => Math.max(a, b), 0);
      const map = Float32Array.from(own, (v) => (most > 0 ? v / most : 0));
      const target = wanted[i]!;
      return {
        ...{ map, height, width, target },
        probability: shareOf(logits[i]!, target),
        layer: found.name,
      };
    });
  });
}

/** The maps that are looked at, and the gradient of the chosen classes' logits with respect to them. */
interface MapsAndGradient {
  readonly name: string;
  readonly maps: Tensor;
  readonly gradient: Tensor;
}

/** Of the last of a layer's calls, from where the model computes again. @throws ArgumentError */
function ofLayer(
  model: nn.Layer,
  batch: Tensor,
  calls: readonly LayerCall[],
  name: string | undefined,
  chosen: Tensor,
): MapsAndGradient {
  const call = calls.at(-1);
  if (!call) throw new ArgumentError(`[gradCam] the model does not call the layer '${name}'.`);
  const maps = call.output;
  if (maps.ndim !== 4)
    throw new ArgumentError(
      `[gradCam] '${call.name}' gives (${maps.shape.join(',')}), expected maps (N,C,H,W). Choose a convolution or a layer that follows one.`,
    );
  realize(maps);
  // A layer that is called several times is looked at in its last call.
  const times = calls.filter(({ layer }) => layer === call.layer).length;
  const score = (a: Tensor): Tensor => {
    let count = 0;
    const hook = call.layer.registerForwardHook(() => (++count === times ? a : undefined));
    try {
      return twoSided(model.forward(batch)).mul(chosen).sum();
    } finally {
      hook.remove();
    }
  };
  return { name: call.name, maps, gradient: grad(score)(maps.detach()) };
}

/** Of the last convolution in the graph of the model's output, for models whose layers are no modules. @throws ArgumentError */
function ofGraph(model: nn.Layer, batch: Tensor, chosen: Tensor): MapsAndGradient {
  const score = nodeOf(twoSided(model.forward(batch)).mul(chosen).sum());
  const order = topological([score]);
  const product = order.findLast(isConvolutionNode);
  const node = product && (order.find((user) => isBiasOf(user, product)) ?? product);
  const [slope] = node ? withoutGradients(() => vjp([score], [like(score, 1)], [node])) : [];
  if (!node || !slope)
    throw new ArgumentError(
      '[gradCam] the model calls no Conv2d: Grad-CAM needs maps. Name a layer that gives them.',
    );
  const own = [...model.namedParameters()].find(([, parameter]) => nodeOf(parameter) === product.src[1]);
  const [maps, gradient] = [tensorOf(node) as Tensor, tensorOf(slope) as Tensor];
  realize(maps, gradient);
  return { name: own?.[0].replace(/\.weight$/, '') ?? 'the last convolution', maps, gradient };
}

/** Whether a node adds a number for each channel: a convolution's bias. */
const isBiasOf = (node: GraphNode, product: GraphNode): boolean =>
  node.op === 'map' &&
  argOf(node, 'map').op === 'add' &&
  node.src.includes(product) &&
  node.src.some(({ op }) => op === 'expand');

const isConvolutionNode = (node: GraphNode): boolean =>
  node.op === 'call' && node.requiresGrad && callOf(node).op.name === 'conv2d';

/** Logits of each example. */
async function rowsOf(output: Tensor): Promise<number[][]> {
  const [n, width] = output.shape as [number, number];
  const values = await valuesOf(output);
  return Array.from({ length: n }, (_, i) =>
    width === 1 ? [0, values[i]!] : [...values.subarray(i * width, (i + 1) * width)],
  );
}

/** The softmax of logits, at a class. */
function shareOf(logits: readonly number[], target: number): number {
  const most = Math.max(...logits);
  const parts = logits.map((v) => Math.exp(v - most));
  return parts[target]! / parts.reduce((a, b) => a + b, 0);
}

/** Logits of both classes of a model with one logit per example. */
export const twoSided = (logits: Tensor): Tensor =>
  logits.ndim === 2 && logits.shape[1] === 1 ? logits.mul(tensor([[0, 1]])) : logits;

/** Options of `gradCamSvg`. */
export interface GradCamPictureOptions extends GradCamOptions, PictureOptions {
  /** Above the picture; default: 'Where the network looks'. */
  readonly title?: string;
  /** What the classes are called; default: their numbers. */
  readonly classes?: readonly string[];
}

/**
 * Images, and beside each the heat of `gradCam` over it.
 * @param images floats (C, H, W) or (N, C, H, W), normalized as the model takes them
 * @returns the text of an SVG
 */
export async function gradCamSvg(
  model: nn.Layer,
  images: Tensor,
  options: GradCamPictureOptions = {},
): Promise<string> {
  const { classes, layer, targets, title = 'Where the network looks', ...drawing } = options;
  const batch = batchOf('gradCamSvg', images);
  const found = await gradCam(model, batch, { layer, ...(targets && { targets }) });
  const [, channels, height, width] = batch.shape as [number, number, number, number];
  const values = await valuesOf(batch);
  const size = channels * height * width;
  const tiles = found.flatMap(({ map, height: h, width: w, target, probability }, i) => {
    const image = rasterOf(values.subarray(i * size, (i + 1) * size), channels === 3 ? 3 : 1, height, width);
    const heat = enlarged(map, [h, w], [height, width]);
    const captions = [`${classes?.[target] ?? target}`, percent(probability)];
    return [
      { raster: image, captions: ['', ''] },
      { raster: heated(image, heat), captions },
    ];
  });
  const heading = {
    title: `${title} (Grad-CAM of ${found[0]!.layer})`,
    subtitle: 'Each image, and over it the evidence for the class below: the lighter the colour, the more',
  };
  return tilesSvg(heading, tiles, { size: 88, group: 2 }, drawing);
}

/** An image as a network takes it: floats (C, H, W), 1 channel or 3. */
export interface ImageInput {
  /** 1 or 3. */
  readonly channels: 1 | 3;
  /** Rows of pixels. */
  readonly height: number;
  /** Pixels of a row. */
  readonly width: number;
  /** Of each channel its pixels, row by row. */
  readonly values: ArrayLike<number>;
}

/** The overlay has at least so many pixels a side, so that the heat is smooth over images of few pixels. */
const OVERLAY_SIDE = 224;

/**
 * An image with the heat of `gradCam` over it.
 * @returns a PNG
 */
export function gradCamPng(
  { channels, height, width, values }: ImageInput,
  found: Pick<GradCam, 'map' | 'height' | 'width'>,
): Promise<Uint8Array> {
  const scale = Math.max(1, Math.ceil(OVERLAY_SIDE / Math.max(height, width)));
  const image = magnified(rasterOf(values, channels, height, width), scale);
  const heat = enlarged(found.map, [found.height, found.width], [image.height, image.width]);
  return pngOf(heated(image, heat));
}
