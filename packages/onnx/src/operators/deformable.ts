/** Convolutions whose taps lie at places of their own. Dai et al. 2017. */
import { type AnyTensor, f32, i32, type Tensor } from 'heddle';
import { ELEMENT_TYPES } from '../file/element-types.js';
import { hostTensor } from '../values/host-ops.js';
import { listOf } from '../values/limits.js';
import { Value } from '../values/value.js';
import { int, ints } from './attributes.js';
import { operator } from './operator.js';
import { GROUP, windowsOf } from './windows.js';

/** Images (N, groups, channels, H · W) at places (N, groups, 1, P), linearly between pixels; outside they are 0. */
function sampledAt(
  x: AnyTensor,
  [height, width]: readonly [number, number],
  y: AnyTensor,
  column: AnyTensor,
): AnyTensor {
  const [top, left] = [y.floor(), column.floor()];
  const shape = [x.shape[0]!, x.shape[1]!, x.shape[2]!, y.shape[3]!];
  let sum: AnyTensor | undefined;
  for (const [down, right] of [
    [0, 0],
    [0, 1],
    [1, 0],
    [1, 1],
  ] as const) {
    const [row, at] = [top.add(down), left.add(right)];
    const weight = y.sub(row).abs().neg().add(1).mul(column.sub(at).abs().neg().add(1));
    const isInside = row.ge(0).and(row.lt(height)).and(at.ge(0)).and(at.lt(width));
    const index = row
      .clamp(0, height - 1)
      .mul(width)
      .add(at.clamp(0, width - 1))
      .cast(i32);
    const part = (x.gather(3, index.expand(shape)) as AnyTensor).mul(isInside.where(weight, 0) as AnyTensor);
    sum = sum ? sum.add(part) : part;
  }
  return sum!;
}

const DeformConv = operator({
  since: [19, 22],
  inputs: [3, 5],
  attributes: {
    ...{ dilations: ints(undefined), kernel_shape: ints(undefined), pads: ints(undefined) },
    ...{ strides: ints(undefined), offset_group: int(1), ...GROUP },
  },
  compute: (call) => {
    const { group, offset_group: places } = call.attributes;
    const [x, weight, offset] = [call.tensor(0), call.tensor(1), call.tensor(2)];
    if (x.ndim !== 4 || weight.ndim !== 4)
      throw call.shapeError(
        `images (${x.shape}) with kernels (${weight.shape}) are not supported: two dimensions are.`,
      );
    const [n, c, height, width] = x.shape as [number, number, number, number];
    const [outputs, , kh, kw] = weight.shape as [number, number, number, number];
    const w = windowsOf(call, { ...call.attributes, auto_pad: 'NOTSET' }, [height, width], [kh, kw]);
    const [rows, columns] = w.count as [number, number];
    const [taps, points] = [kh * kw, kh * kw * rows * columns];
    if (places < 1 || group < 1 || c % places !== 0 || c % group !== 0 || outputs % group !== 0)
      throw call.shapeError(
        `${c} channels do not divide in ${places} groups of offsets and ${group} of weights.`,
      );
    // Places of the taps of all windows without offsets: (taps, rows, columns), along H and along W.
    const grid = (i: 0 | 1): AnyTensor => {
      const values = listOf(points, (_, p) => {
        const tap = Math.floor(p / (rows * columns));
        const within = p % (rows * columns);
        const [at, k] =
          i === 0 ? [Math.floor(within / columns), Math.floor(tap / kw)] : [within % columns, tap % kw];
        return at * w.strides[i]! - w.before[i]! + k * w.dilations[i]!;
      });
      return Value.host(hostTensor(ELEMENT_TYPES.f32, [1, 1, 1, points], values)).tensor;
    };
    const moved = offset.cast(f32).reshape([n, places, taps, 2, rows * columns]);
    const [y, at] = ([0, 1] as const).map((i) =>
      moved.at(':', ':', ':', i).reshape([n, places, 1, points]).add(grid(i)),
    ) as [AnyTensor, AnyTensor];
    const images = x.cast(f32).reshape([n, places, c / places, height * width]);
    const sampled = sampledAt(images, [height, width], y, at);
    const mask = call.optional(4)?.tensor.cast(f32).reshape([n, places, 1, points]);
    const values = (mask ? sampled.mul(mask) : sampled).reshape([
      n,
      group,
      (c / group) * taps,
      rows * columns,
    ]);
    const matrix = weight.cast(f32).reshape([group, outputs / group, -1]) as Tensor;
    const made = (matrix.matmul(values as Tensor) as AnyTensor)
      .reshape([n, outputs, rows, columns])
      .cast(x.dtype);
    const bias = call.optional(3)?.tensor;
    return Value.of(bias ? made.add(bias.reshape([outputs, 1, 1])) : made);
  },
});

export const DEFORMABLE = { DeformConv };
