/** Requests that wait for a batch: bounded, by priority, and grouped by what may run together. */

/** A request in a queue. */
export interface Waiting {
  /** Requests of the same key may share a batch. */
  readonly key: string;
  readonly rows: number;
  /** Of smaller numbers first; 1 is the most urgent. */
  readonly priority: number;
  /** When it arrived, in milliseconds of performance.now(). */
  readonly arrived: number;
  /** When it is too late to answer. */
  readonly expires: number;
  /** Whether it still wants an answer. */
  wanted: boolean;
}

/** Requests that may run together: a line for each priority, the most urgent first. */
interface Group<W> {
  readonly lines: { readonly priority: number; readonly waiting: W[] }[];
  rows: number;
}

/**
 * Requests leave in order of priority, then of arrival. One that is no longer wanted stays in its line until it is reached,
 * and does not count.
 */
export class WaitingQueue<W extends Waiting> {
  readonly #groups = new Map<string, Group<W>>();
  #length = 0;

  /** Requests that want an answer. */
  get length(): number {
    return this.#length;
  }

  add(request: W): void {
    let group = this.#groups.get(request.key);
    if (!group) {
      group = { lines: [], rows: 0 };
      this.#groups.set(request.key, group);
    }
    let line = group.lines.find(({ priority }) => priority === request.priority);
    if (!line) {
      line = { priority: request.priority, waiting: [] };
      group.lines.push(line);
      group.lines.sort((a, b) => a.priority - b.priority);
    }
    line.waiting.push(request);
    group.rows += request.rows;
    this.#length++;
  }

  /** A request that is no longer wanted. @returns false if it is not waiting any more */
  drop(request: W): boolean {
    const group = this.#groups.get(request.key);
    if (!request.wanted || !group) return false;
    request.wanted = false;
    group.rows -= request.rows;
    this.#length--;
    return true;
  }

  /** The group whose first request is the most urgent, then the oldest. */
  next(): { readonly key: string; readonly rows: number; readonly arrived: number } | undefined {
    let best: { key: string; rows: number; arrived: number; priority: number } | undefined;
    for (const [key, group] of this.#groups) {
      const first = firstOf(group);
      if (!first) {
        this.#groups.delete(key);
        continue;
      }
      const { priority, arrived } = first;
      if (!best || priority < best.priority || (priority === best.priority && arrived < best.arrived))
        best = { key, rows: group.rows, arrived, priority };
    }
    return best;
  }

  /** Take the requests of a group that fit into `most` rows together: at least one. */
  take(key: string, most: number): W[] {
    const group = this.#groups.get(key);
    const taken: W[] = [];
    if (!group) return taken;
    let rows = 0;
    for (const { waiting } of group.lines) {
      let used = 0;
      for (; used < waiting.length; used++) {
        const request = waiting[used]!;
        if (!request.wanted) continue;
        if (rows > 0 && rows + request.rows > most) break;
        rows += request.rows;
        taken.push(request);
      }
      const isFull = used < waiting.length;
      waiting.splice(0, used);
      if (isFull) break;
    }
    group.rows -= rows;
    this.#length -= taken.length;
    return taken;
  }

  /** Every request that wants an answer and for which `holds`. */
  filter(holds: (request: W) => boolean): W[] {
    return [...this.#groups.values()].flatMap(({ lines }) =>
      lines.flatMap(({ waiting }) => waiting.filter((request) => request.wanted && holds(request))),
    );
  }
}

/** The next request of a group; those before it that are no longer wanted are forgotten. */
function firstOf<W extends Waiting>({ lines }: Group<W>): W | undefined {
  for (const { waiting } of lines) {
    const at = waiting.findIndex(({ wanted }) => wanted);
    waiting.splice(0, at < 0 ? waiting.length : at);
    if (at >= 0) return waiting[0];
  }
  return undefined;
}
