/**
 * Every error Heddle throws on purpose: a class to catch, a stable `code` to test, and a text that gives both
 * values, the rule and a hint.
 */
export class HeddleError extends Error {
  /** Tells errors apart in programs: `HEDDLE_SHAPE`, and so on, the same in every version. */
  readonly code: string;
  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.name = new.target.name;
  }
}

/** Shapes that do not fit together. */
export class ShapeError extends HeddleError {
  constructor(message: string) {
    super('HEDDLE_SHAPE', message);
  }
}

/** Number types that do not fit together. */
export class DTypeError extends HeddleError {
  constructor(message: string) {
    super('HEDDLE_DTYPE', message);
  }
}

/** An argument outside what a function takes. */
export class ArgumentError extends HeddleError {
  constructor(message: string) {
    super('HEDDLE_ARGUMENT', message);
  }
}

/** Where a piece of a kernel stands in the author's source. Lines and columns count from 1. */
export interface Location {
  /** The path of the file, or its URL. */
  readonly file: string;
  /** From 1 on. */
  readonly line: number;
  /** From 1 on. */
  readonly column: number;
  /** The text of that line. */
  readonly text: string;
}

export const formatLocation = (at: Location): string => `${at.file}:${at.line}:${at.column}`;

/** A kernel's source does not compile: unsupported syntax, types or shapes that do not fit, bad captures. */
export class KernelError extends HeddleError {
  /** The line of the kernel's source, if the error is about one. */
  readonly at: Location | undefined;
  /** @param message what is wrong and what to write instead */
  constructor(message: string, at?: Location) {
    super('HEDDLE_KERNEL', at ? `${message}\n${excerpt(at)}` : message);
    this.at = at;
  }
}

function excerpt(at: Location): string {
  const { text, column } = around(at);
  return `  at ${formatLocation(at)}\n  | ${text}\n  | ${' '.repeat(Math.max(0, column - 1))}^`;
}

/** The most columns of a source line that are quoted. */
const QUOTED = 120;

/** The part of a location's line to quote, and the location's column in it: a minified file is one line. */
export function around({ text, column }: Location): { readonly text: string; readonly column: number } {
  if (text.length <= QUOTED) return { text, column };
  const end = Math.min(text.length, Math.max(column + QUOTED / 2, QUOTED));
  const start = Math.max(0, end - QUOTED);
  const cut = `${start > 0 ? '…' : ''}${text.slice(start, end)}${end < text.length ? '…' : ''}`;
  return { text: cut, column: column - start + (start > 0 ? 1 : 0) };
}

/** What the simulator found while a kernel ran. */
export type FindingKind =
  | 'out-of-bounds'
  | 'misaligned'
  | 'uninitialized-read'
  | 'race'
  | 'divergent-barrier'
  | 'missing-fence'
  | 'mbarrier'
  | 'unfinished'
  | 'deadlock'
  | 'inactive-lane'
  | 'assert'
  | 'step-budget';

/** A kernel did something wrong in the simulator; the text names its line, the block and the thread. */
export class SimulatorError extends HeddleError {
  /** What was found. */
  readonly kind: FindingKind;
  /** The line of the kernel's source, if it is known. */
  readonly at: Location | undefined;
  /** Coordinates of the block: x, y, z. */
  readonly block: readonly [number, number, number];
  /** Coordinates of the thread within its block: x, y, z. */
  readonly thread: readonly [number, number, number];
  constructor(
    kind: FindingKind,
    message: string,
    at: Location | undefined,
    block: readonly [number, number, number],
    thread: readonly [number, number, number],
  ) {
    super(
      `HEDDLE_SIM_${kind.toUpperCase().replaceAll('-', '_')}`,
      `${message}\n  block (${block.join(',')}), thread (${thread.join(',')})${at ? `\n${excerpt(at)}` : ''}`,
    );
    this.kind = kind;
    this.at = at;
    this.block = block;
    this.thread = thread;
  }
}

/** A device is missing, unknown or failed. */
export class DeviceError extends HeddleError {
  constructor(message: string, options?: ErrorOptions) {
    super('HEDDLE_DEVICE', message, options);
  }
}

/** Memory that could not be had; the text says how much was asked for and held, and by what. */
export class OutOfMemoryError extends HeddleError {
  constructor(message: string) {
    super('HEDDLE_OUT_OF_MEMORY', message);
  }
}

/** A file that is missing, truncated, damaged or of another format. */
export class FileError extends HeddleError {
  /** The file that the error is about. */
  readonly path: string;
  constructor(path: string, message: string, options?: ErrorOptions) {
    super('HEDDLE_FILE', `${path}: ${message}`, options);
    this.path = path;
  }
}

/** Data that is readable but wrong, such as a label outside the classes. */
export class DataError extends HeddleError {
  constructor(message: string, options?: ErrorOptions) {
    super('HEDDLE_DATA', message, options);
  }
}

/** The processes that train together do not: one is gone, late, or does something else than the others. */
export class DistributedError extends HeddleError {
  constructor(message: string, options?: ErrorOptions) {
    super('HEDDLE_DISTRIBUTED', message, options);
  }
}

/** NaN or infinity where a number was needed. */
export class NumericError extends HeddleError {
  constructor(message: string) {
    super('HEDDLE_NUMERIC', message);
  }
}

/** Something that must hold inside Heddle does not: a bug of ours. */
export class InternalError extends HeddleError {
  constructor(message: string) {
    super('HEDDLE_INTERNAL', `${message} (a bug in Heddle: please report it)`);
  }
}
