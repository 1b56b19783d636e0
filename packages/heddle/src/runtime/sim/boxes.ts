/** Boxes of buffers that the copy engine moves (TMA): their elements, and where they lie in a tile. */
import { sizeOf } from '../../core/shape.js';
import { type TensorMap, walkReach } from '../../kernel/ir/types.js';
import type { ClockedMemory } from './clocked-memory.js';
import type { Run } from './run.js';

/** Call `visit` with the place in the tile and the element of the buffer, −1 outside of it; how many there are. */
export function eachOfBox(
  run: Run,
  map: TensorMap,
  corner: readonly number[],
  site: number,
  visit: (n: number, element: number) => void,
): number {
  if (map.walk) return eachOfPixels(run, map, corner, site, visit);
  const { sizes, strides, box, offset } = map;
  const count = sizeOf(box);
  if (corner.length !== box.length) run.fail('out-of-bounds', 'a box has other dimensions.', site);
  for (let n = 0; n < count; n++) {
    let rest = n;
    let element = offset;
    let inside = true;
    for (let d = box.length - 1; d >= 0; d--) {
      const index = corner[d]! + (rest % box[d]!);
      rest = Math.floor(rest / box[d]!);
      inside &&= index >= 0 && index < sizes[d]!;
      element += index * strides[d]!;
    }
    visit(n, inside ? element : -1);
  }
  return count;
}

/** The same of pixels that are walked over. @param at image, position along each dimension, channel, and offsets */
function eachOfPixels(
  run: Run,
  map: TensorMap,
  at: readonly number[],
  site: number,
  visit: (n: number, element: number) => void,
): number {
  const { sizes, strides, box, offset, walk } = map;
  const { from, counts, steps = from.map(() => 1) } = walk!;
  const [pixels, channels] = box as [number, number];
  const rank = sizes.length;
  const first = at.slice(0, rank);
  // Where pixels are written there are none.
  const offsets = from.map((_, d) => at[rank + d] ?? 0);
  // Which pixel of the walk it is, along each dimension.
  const place = from.map((start, d) => (first[d + 1]! - start) / steps[d]!);
  const isAt = place.every((p, d) => Number.isInteger(p) && p >= 0 && p < counts[d]!);
  const reach = walkReach(from.length);
  if (!isAt || offsets.some((o) => o < 0 || o >= reach))
    run.fail(
      'out-of-bounds',
      `a copy from (${first.join(', ')}) with offsets (${offsets.join(', ')}): it begins with a pixel of the walk, ` +
        `from (${from.join(', ')}) on in steps of (${steps.join(', ')}), (${counts.join(', ')}) of them; offsets are 0 to ${reach - 1}.`,
      site,
    );
  let image = first[0]!;
  for (let p = 0; p < pixels; p++) {
    const indices = [image, ...place.map((n, d) => from[d]! + n * steps[d]! + offsets[d]!)];
    const inside = indices.every((index, d) => index >= 0 && index < sizes[d]!);
    const pixel = indices.reduce((sum, index, d) => sum + index * strides[d]!, offset);
    for (let c = 0; c < channels; c++) {
      const channel = first[rank - 1]! + c;
      visit(p * channels + c, inside && channel >= 0 && channel < sizes[rank - 1]! ? pixel + channel : -1);
    }
    let d = place.length - 1;
    while (d >= 0 && place[d] === counts[d]! - 1) place[d--] = 0;
    if (d >= 0) place[d]!++;
    else image++;
  }
  return pixels * channels;
}

/** The first element of a box in a tile, which begins with a row. */
export function startOfBox(run: Run, tile: ClockedMemory, indices: readonly number[], site: number): number {
  const { dims } = tile.decl;
  const start = indices.reduce((sum, index, d) => sum * dims[d]! + tile.dim(index, d, site), 0);
  if (indices.at(-1) !== 0 || (indices.at(-2)! * dims.at(-1)! * tile.decl.dtype.bytes) % 128 !== 0)
    run.fail(
      'misaligned',
      `${tile.decl.name}[${indices.join('][')}]: a box begins with a row of its tile, at a multiple of 128 bytes.`,
      site,
    );
  return start;
}
