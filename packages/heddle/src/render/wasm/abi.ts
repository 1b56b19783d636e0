/** What compiled kernels and the device that runs them agree on: the first page of memory, in which no buffer lies. */

/** Word: 1 + the number of the message whose assertion failed; 0 for none. */
export const FAILURE = 64;

/** Word: bytes of print records asked for; what did not fit was dropped. */
export const PRINT_HEAD = 68;
/** Records: number of the message (i32), unused (i32), then 8 bytes per value (f64, or i64 for integers). */
export const PRINT_RING = 16384;
export const PRINT_BYTES = 32768;
