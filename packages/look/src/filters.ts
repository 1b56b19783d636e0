/** What layers have learned to look for, and what they see in an image. */
import { ArgumentError, nn, type Shape, type Tensor } from 'heddle';
import type { PictureOptions } from './chart.js';
import { batchOf, judged, layerNamed, sizeText, traceCalls, valuesOf } from './layers.js';
import { counted } from './numbers.js';
import { rasterOf } from './raster.js';
import { type Tile, tilesSvg } from './tiles.js';

/** Options of `filtersSvg`. */
export interface FiltersOptions extends PictureOptions {
  /** The name of the layer, for the title. */
  readonly name?: string;
  /** (C, H, W) of the images that a linear layer takes flattened: its rows are drawn as images. */
  readonly inputShape?: Shape;
  /** Draw at most so many images; default 64. */
  readonly most?: number;
}

const MOST = 64;

/**
 * The filters of a convolution, or the rows of a linear layer that takes images: each from its smallest weight (black) to
 * its largest (white); of three input channels in colour, of others an image for each channel.
 * @param layer a Conv2d with weights (out, in, H, W), or a Linear with weights (out, C·H·W) and `inputShape`
 * @returns the text of an SVG
 * @throws ArgumentError for another layer
 */
export async function filtersSvg(layer: nn.Module, options: FiltersOptions = {}): Promise<string> {
  const { name = layer.constructor.name, inputShape, most = MOST, ...drawing } = options;
  const weight = (layer as { readonly weight?: Tensor }).weight;
  const shape = shapeOfFilters(layer, weight, inputShape);
  if (!weight || !shape)
    throw new ArgumentError(
      `[filtersSvg] the layer is a ${layer.constructor.name}, must be a Conv2d, or a Linear of images with inputShape: [C, H, W].`,
    );
  const [filters, channels, height, width] = shape;
  const values = await valuesOf(weight);
  const inColour = channels === 3;
  const planes = inColour || channels === 1 ? 1 : channels;
  const shownPlanes = Math.min(planes, 16);
  const shown = Math.min(filters, Math.max(1, Math.floor(most / shownPlanes)));
  const size = (planes === 1 ? channels : 1) * height * width;
  const tiles: Tile[] = [];
  for (let f = 0; f < shown; f++)
    for (let c = 0; c < shownPlanes; c++) {
      const from = (f * planes + c) * size;
      tiles.push({ raster: rasterOf(values.subarray(from, from + size), inColour ? 3 : 1, height, width) });
    }
  const rows =
    planes === 1
      ? ''
      : `, a row each, ${shownPlanes === planes ? 'their' : `the first ${shownPlanes} of ${planes}`} channels side by side`;
  const count = shown === filters ? counted(filters, 'filter') : `the first ${shown} of ${filters} filters`;
  const heading = {
    title: `Filters of ${name}`,
    subtitle: `${count} of ${sizeText(channels === 1 ? [height, width] : [channels, height, width])}${rows}; smallest weight black, largest white`,
  };
  return tilesSvg(
    heading,
    tiles,
    { size: planes === 1 ? 56 : 44, columns: planes === 1 ? undefined : shownPlanes },
    drawing,
  );
}

function shapeOfFilters(
  layer: nn.Module,
  weight: Tensor | undefined,
  inputShape: Shape | undefined,
): [filters: number, channels: number, height: number, width: number] | undefined {
  if (!weight) return undefined;
  if (layer instanceof nn.Conv2d) return [...weight.shape] as [number, number, number, number];
  if (!(layer instanceof nn.Linear) || inputShape?.length !== 3) return undefined;
  const [channels, height, width] = inputShape as [number, number, number];
  const [filters, features] = weight.shape as [number, number];
  return features === channels * height * width ? [filters, channels, height, width] : undefined;
}

/** Options of `featureMapsSvg`. */
export interface FeatureMapsOptions extends PictureOptions {
  /** The dotted name of a layer, such as `conv1`. */
  readonly layer: string;
  /** Draw at most so many maps; default 32. */
  readonly most?: number;
}

/**
 * What a layer makes of an image, a map for each of its channels: each from its smallest value (black) to its largest
 * (white). The first tile is the image.
 * @param image floats (C, H, W) or (1, C, H, W), normalized as the model takes them
 * @returns the text of an SVG
 * @throws ArgumentError for a layer that the model does not have or does not call, or that gives no maps (N, C, H, W)
 */
export async function featureMapsSvg(
  model: nn.Layer,
  image: Tensor,
  options: FeatureMapsOptions,
): Promise<string> {
  const { layer: name, most = 32, ...drawing } = options;
  const layer = layerNamed('featureMapsSvg', model, name);
  const batch = batchOf('featureMapsSvg', image);
  const call = await judged(model, async () =>
    traceCalls(model, batch, (module) => module === layer).calls.at(-1),
  );
  if (!call) throw new ArgumentError(`[featureMapsSvg] the model does not call the layer '${name}'.`);
  const { output } = call;
  if (output.ndim !== 4)
    throw new ArgumentError(
      `[featureMapsSvg] '${name}' gives (${output.shape.join(',')}), expected maps (N,C,H,W). Choose a convolution or a layer that follows one.`,
    );
  const [, maps, height, width] = output.shape as [number, number, number, number];
  const [values, pixels] = [await valuesOf(output), await valuesOf(batch)];
  const [, channels, ...size] = batch.shape as [number, number, number, number];
  const shown = Math.min(maps, most);
  const plane = height * width;
  const tiles: Tile[] = [
    { raster: rasterOf(pixels, channels === 3 ? 3 : 1, ...size), captions: ['image'] },
    ...Array.from({ length: shown }, (_, c) => ({
      raster: rasterOf(values.subarray(c * plane, (c + 1) * plane), 1, height, width),
      captions: [String(c)],
    })),
  ];
  const count = shown === maps ? counted(maps, 'map') : `the first ${shown} of ${maps} maps`;
  const heading = {
    title: `What ${name} makes of an image`,
    subtitle: `${count} of ${sizeText([height, width])}, each from its smallest value (black) to its largest (white)`,
  };
  return tilesSvg(heading, tiles, { size: 72 }, drawing);
}
