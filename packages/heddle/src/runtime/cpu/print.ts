/** What kernels print: records in a ring in memory (render/wasm/abi.ts), written out after a run. */
import { print } from '#platform/process.js';
import type { Message } from '../../render/message.js';
import { PRINT_BYTES, PRINT_HEAD, PRINT_RING } from '../../render/wasm/abi.js';

/** Write out all records and empty the ring. */
export function flushPrints(memory: Uint8Array, messages: readonly Message[]): void {
  const head = new Int32Array(memory.buffer, PRINT_HEAD, 1);
  const asked = Atomics.exchange(head, 0, 0);
  if (asked === 0) return;
  const view = new DataView(memory.buffer, PRINT_RING, PRINT_BYTES);
  let at = 0;
  while (at + 8 <= Math.min(asked, PRINT_BYTES)) {
    const message = messages[view.getInt32(at, true) - 1];
    if (!message) break;
    view.setInt32(at, 0, true);
    at += 8;
    const values = message.values.map((type) => {
      const lanes = Array.from({ length: type.lanes }, () => {
        const wide = type.dtype.name === 'i64';
        const v = wide ? view.getBigInt64(at, true) : view.getFloat64(at, true);
        at += 8;
        return type.dtype.name === 'bool' ? String(v !== 0) : String(v);
      });
      return type.lanes > 1 ? `(${lanes.join(', ')})` : lanes[0]!;
    });
    print(fill(message.text, values));
  }
  if (asked > PRINT_BYTES) {
    print(`(more was printed in one run than the ${PRINT_BYTES} bytes kept for it)`);
  }
}

/** Put a value for each `{}`. */
function fill(text: string, values: readonly string[]): string {
  let next = 0;
  return text.replaceAll('{}', () => values[next++] ?? '{}');
}
