/** What travels where between ranks that copy from each other, and where it arrives. */

/** Each source begins at a multiple of so many bytes of a result. */
export const ROUTE_BYTES = 64;

/** Bytes of the driver's pages. What another process maps shares none of them with other memory. */
export const PAGE_BYTES: number = 2 ** 21;

/** Any rank, for `senders` and `receivers`. */
export const ANY = -1;

/** Sources that ranks send, numbered alike on all of them. Ranks are places in their group. */
export interface Routes {
  /** Elements of each source. */
  readonly counts: readonly number[];
  /** Who sends each source: a rank, or `ANY` for all. */
  readonly senders: readonly number[];
  /** Who receives each source: a rank, or `ANY` for all but who sends it. */
  readonly receivers: readonly number[];
}

/** A source of a rank in the flat result of another. */
export interface Arrival {
  readonly sender: number;
  readonly source: number;
  /** Where it begins, in elements. */
  readonly at: number;
}

/** What a rank receives. */
export interface Arrivals {
  readonly arrivals: readonly Arrival[];
  /** Elements of its result, whose gaps have no values. */
  readonly size: number;
}

/**
 * The sources that a rank receives, in its flat result: those of one rank after those of another, in their order.
 * @param ranks how many there are
 * @param step each source begins at a multiple of so many elements
 */
export function arrivalsOf(
  { counts, senders, receivers }: Routes,
  receiver: number,
  ranks: number,
  step: number,
): Arrivals {
  const travels = (source: number, sender: number): boolean =>
    [ANY, sender].includes(senders[source]!) && [ANY, receiver].includes(receivers[source]!);
  const arrivals: Arrival[] = [];
  let size = 0;
  for (let sender = 0; sender < ranks; sender++)
    counts.forEach((count, source) => {
      if (sender === receiver || !travels(source, sender)) return;
      arrivals.push({ sender, source, at: size });
      size += Math.ceil(count / step) * step;
    });
  return { arrivals, size };
}
