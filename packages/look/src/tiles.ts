/** Small images in rows, each with a caption. */
import { FONT, FONT_SIZE, type PictureOptions, picture } from './chart.js';
import { INK, MUTED, RULE } from './palette.js';
import { dataUrl, type Raster } from './raster.js';

/** An image of a grid. */
export interface Tile {
  readonly raster: Raster;
  /** Lines under it, the first one stronger. */
  readonly captions?: readonly string[];
}

/** How tiles are laid out. */
interface Grid {
  /** Pixels of the longer side of a tile, about. */
  readonly size: number;
  /** In a row; default: as many as there is room for. */
  readonly columns?: number | undefined;
  /** So many tiles stay in one row. */
  readonly group?: number;
}

const EDGE = 12;
const GAP = 8;
const LINE = 16;

/** @returns an SVG */
export async function tilesSvg(
  heading: { readonly title: string; readonly subtitle?: string | undefined },
  tiles: readonly Tile[],
  { size, columns: asked, group = 1 }: Grid,
  options: PictureOptions,
): Promise<string> {
  const urls = await Promise.all(tiles.map(({ raster }) => dataUrl(raster)));
  return picture(heading, options, ({ width, top }) => {
    const room = width - 2 * EDGE;
    const columns = asked ?? group * Math.max(1, Math.floor((room + GAP) / (group * (size + GAP))));
    const side = Math.min(asked === undefined ? 1.5 * size : size, (room + GAP) / columns - GAP);
    const sizeOf = ({ width, height }: Raster): readonly [number, number] => {
      const scale = side / Math.max(width, height);
      return [width * scale, height * scale];
    };
    const lines = Math.max(0, ...tiles.map(({ captions = [] }) => captions.length));
    const tallest = Math.max(...tiles.map(({ raster }) => sizeOf(raster)[1]));
    const row = tallest + lines * LINE + (lines > 0 ? 6 : 0) + GAP;
    const elements = tiles.flatMap(({ raster, captions = [] }, i) => {
      const x = EDGE + (i % columns) * (side + GAP);
      const y = top + 4 + Math.floor(i / columns) * row;
      const [w, h] = sizeOf(raster);
      return [
        { type: 'image' as const, silent: true, style: { image: urls[i]!, x, y, width: w, height: h } },
        {
          ...{ type: 'rect' as const, silent: true, shape: { x, y, width: w, height: h } },
          style: { fill: 'none', stroke: RULE.light, lineWidth: 1 },
        },
        ...captions.map((text, line) => ({
          ...{ type: 'text' as const, silent: true, x, y: y + h + 5 + line * LINE },
          style: { text, fill: (line === 0 ? INK : MUTED).light, fontSize: FONT_SIZE, fontFamily: FONT },
        })),
      ];
    });
    return {
      height: Math.ceil(top + 4 + row * Math.ceil(tiles.length / columns) + EDGE - GAP),
      option: { graphic: elements },
    };
  });
}
