/** Signals end a training after the step under way. */

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
  readonly #tell: (line: string) => void;

  /** @param tell is given the line for the user */
  constructor(tell: (line: string) => void) {
    this.#tell = tell;
    for (const signal of Object.keys(SIGNALS)) process.on(signal, this.#heard);
  }

  readonly #heard = (signal: NodeJS.Signals): void => {
    const cause = SIGNALS[signal]!;
    const now = performance.now();
    if (!this.cause) {
      this.cause = cause;
      this.#heardAt = now;
      this.#tell(`${cause.name}: stopping after this step and saving. Once more to stop at once.`);
      this.#controller.abort();
    } else if (signal !== 'SIGHUP' && now - this.#heardAt > SAME_PRESS_MS) {
      process.exit(cause.code);
    }
  };

  dispose(): void {
    for (const signal of Object.keys(SIGNALS)) process.off(signal, this.#heard);
  }
}
