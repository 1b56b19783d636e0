/** The gradient of max pooling as what gives windows, which a GPU's kernel stores where it makes their elements. */
import { i32 } from '../../core/dtype.js';
import type { WindowsFrom } from '../../graph/fused-op.js';
import * as k from '../../kernel/ir/ir.js';
import { areSideBySide, type PoolArg } from './windows.js';

/** `toPositions`, where the windows fill the image. */
export function windowsToPositions(arg: PoolArg): WindowsFrom | undefined {
  const { size, kernel } = arg;
  if (!areSideBySide(arg) || size.some((n, i) => n % kernel[i]! !== 0)) return undefined;
  return {
    sizes: kernel,
    compute: ([positions, g]) => {
      const { type } = g!;
      const at = k.cast(i32, positions!);
      return Array.from({ length: kernel[0] * kernel[1] }, (_, i) =>
        k.select(k.alu('eq', [at, k.splat(k.int(i), type.lanes)]), g!, k.zeroOf(type)),
      );
    },
  };
}
