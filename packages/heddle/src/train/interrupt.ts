/** Signals end a training after the step under way. */
import { exit, listen, type Signal, unheardSignals, unlisten } from '#platform/process.js';

interface Cause {
  /** For the user. */
  readonly name: string;
  /** The exit code of a process that the signal ends: 128 and its number. */
  readonly code: number;
}

const SIGNALS: Readonly<Record<string, Cause>> = {
  SIGINT: { name: 'Ctrl-C', code: 130 },
  SIGTERM: { name: 'SIGTERM', code: 143 },
  // The terminal was closed. It may be told more than once, by the system and by the shell.
  SIGHUP: { name: 'SIGHUP', code: 129 },
};

/** One Ctrl-C may arrive twice: from the terminal, and passed on by npm. */
const SAME_PRESS_MS = 300;

/** The first signal asks for an end; Ctrl-C or SIGTERM after it ends the process. */
export class Interrupt {
  readonly #controller = new AbortController();
  readonly signal: AbortSignal = this.#controller.signal;
  /** The signal that was first, if one came. */
  cause: Cause | undefined;
  #heardAt = 0;
  readonly #heeded: readonly string[];
  readonly #tell: (cause: Cause) => void;

  /**
   * Signals that the program has listeners of its own for are left to these.
   * @param tell is told of the first signal
   */
  constructor(tell: (cause: Cause) => void) {
    this.#tell = tell;
    this.#heeded = unheardSignals(Object.keys(SIGNALS));
    listen(this.#heeded, this.#heard);
  }

  readonly #heard = (signal: Signal): void => {
    const cause = SIGNALS[signal]!;
    const now = performance.now();
    if (!this.cause) {
      this.cause = cause;
      this.#heardAt = now;
      this.#tell(cause);
      this.#controller.abort();
    } else if (signal !== 'SIGHUP' && now - this.#heardAt > SAME_PRESS_MS) {
      exit(cause.code);
    }
  };

  dispose(): void {
    unlisten(this.#heeded, this.#heard);
  }
}
