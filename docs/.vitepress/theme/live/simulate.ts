/** Runs a kernel that the reader has written in the simulator, and keeps what it does step by step. */
import { buffer, f32, i32, KernelError, kernel, type SimulationEvent, SimulatorError } from 'heddle';

export interface Steps {
  readonly events: readonly SimulationEvent[];
  readonly result: readonly number[];
  /** Why it stopped, and the line of the reader's text. */
  readonly error?: { readonly message: string; readonly line: number | undefined };
}

export interface Sizes {
  readonly grid: number;
  readonly block: number;
  readonly elements: number;
}

/** More are not drawn. */
const MOST_EVENTS = 2000;

/** @param text a function of `{ x, y, n }` and the context, as `kernel` takes it */
export function simulateText(text: string, { grid, block, elements }: Sizes): Steps {
  const events: SimulationEvent[] = [];
  const x = Float32Array.from({ length: elements }, (_, i) => i);
  const y = new Float32Array(elements);
  const failed = (error: unknown): Steps => ({
    events,
    result: [...y],
    error: {
      message: (error as Error).message.split('\n')[0]!,
      line: error instanceof SimulatorError || error instanceof KernelError ? error.at?.line : undefined,
    },
  });
  try {
    const fn = new Function(`return ${text}`)();
    const made = kernel('mine', { x: buffer(f32), y: buffer(f32), n: i32 }, fn);
    const trace = (event: SimulationEvent): void => {
      if (events.length < MOST_EVENTS) events.push(event);
    };
    made.simulate({ grid, block }, { x, y, n: elements }, { trace, stepBudget: 100_000 });
    return { events, result: [...y] };
  } catch (error) {
    return failed(error);
  }
}
