/**
 * Shadow memory: what the simulator remembers of every place of a buffer or shared array, to find races. A place is an
 * element, or a part of one where the kernel also sees the memory as smaller elements.
 *
 * Two accesses by different threads race when at least one writes, they are not both atomic, and nothing orders
 * them: no barrier between them in one block, or two blocks of one launch (a barrier never orders blocks, and
 * neither does an atomic counter here). Writing the value that is there already is still a race, as in
 * compute-sanitizer. Warp operations exchange values, but do not order memory.
 */
import type { Run } from './run.js';

const PAGE_BITS = 8;
const PAGE = 1 << PAGE_BITS;

/** Kinds of access; each keeps [epoch, site and thread, oldest epoch of a launch in which another block did it]. */
export const READ = 0;
export const WRITE = 3;
export const ATOMIC = 6;
export type AccessKind = typeof READ | typeof WRITE | typeof ATOMIC;
const STRIDE = 9;

/** The second word of an access: its site, whether several threads did it in this epoch, and the (first) thread. */
const SITE_SHIFT = 11;
const SEVERAL = 1 << 10;
const THREAD = SEVERAL - 1;
const WHO = (1 << SITE_SHIFT) - 1;

const DONE: Record<AccessKind, string> = { [READ]: 'read', [WRITE]: 'wrote', [ATOMIC]: 'updated' };
const DOES: Record<AccessKind, string> = {
  [READ]: 'reads',
  [WRITE]: 'writes',
  [ATOMIC]: 'atomically updates',
};

export class Shadow {
  readonly #pages: (Int32Array | undefined)[] = [];

  #page(element: number): Int32Array {
    const number = element >> PAGE_BITS;
    let page = this.#pages[number];
    if (!page) {
      page = new Int32Array(PAGE * STRIDE);
      this.#pages[number] = page;
    }
    return page;
  }

  /** Whether some thread has plainly written the element since epoch `since`. */
  writtenSince(element: number, since: number): boolean {
    return this.#page(element)[(element & (PAGE - 1)) * STRIDE + WRITE]! >= since;
  }

  /**
   * Whether a read tells nothing new: the running thread, or two others, have read the element in this epoch. Then
   * nobody has written it since without a clash.
   */
  readBefore(run: Run, element: number): boolean {
    const page = this.#page(element);
    const at = (element & (PAGE - 1)) * STRIDE;
    if (page[at]! !== run.epoch) return false;
    const who = page[at + 1]! & WHO;
    return who === run.thread || who >= SEVERAL;
  }

  /**
   * Remember an access of the running thread. `since` is the first epoch that matters: the launch's for global
   * memory, the block's for shared. Returns the access before it that it races with, if there is one.
   */
  access(run: Run, way: AccessKind, element: number, since: number, site: number): Rival | undefined {
    const page = this.#page(element);
    const at = (element & (PAGE - 1)) * STRIDE;
    if (way !== READ && clashes(run, page, at + READ, since)) return rival(run, page, at, READ);
    if (clashes(run, page, at + WRITE, since)) return rival(run, page, at, WRITE);
    if (way !== ATOMIC && clashes(run, page, at + ATOMIC, since)) return rival(run, page, at, ATOMIC);
    const mine = at + way;
    const before = page[mine]!;
    if (before === run.epoch) {
      if ((page[mine + 1]! & WHO) !== run.thread) page[mine + 1]! |= SEVERAL;
    } else {
      if (before >= since && !run.isOfCluster(before)) page[mine + 2] = since;
      page[mine] = run.epoch;
      page[mine + 1] = (site << SITE_SHIFT) | run.thread;
    }
    return undefined;
  }
}

/** Whether the accesses remembered at `track` are unordered with one by the running thread. */
function clashes(run: Run, page: Int32Array, track: number, since: number): boolean {
  const epoch = page[track]!;
  if (epoch < since) return false;
  if (!run.isOfCluster(epoch)) return true;
  if (!run.isTimed && epoch === run.epoch && (page[track + 1]! & WHO) !== run.thread) return true;
  return page[track + 2] === since;
}

/** The earlier of two accesses that race. */
interface Rival {
  readonly way: AccessKind;
  readonly sameBlock: boolean;
  /** Thread, and block if it is another, as far as they are still known. */
  readonly who: string;
  readonly line: string;
}

function rival(run: Run, page: Int32Array, at: number, way: AccessKind): Rival {
  const epoch = page[at + way]!;
  const packed = page[at + way + 1]!;
  const line = run.nameLine(packed >> SITE_SHIFT);
  const who = packed & THREAD;
  if (!run.isOfCluster(epoch)) {
    const block = run.blockAt(epoch).join(',');
    return { way, sameBlock: false, who: `${run.nameThread(who)} of block (${block})`, line };
  }
  if (run.isTimed || epoch !== run.epoch || (packed & WHO) === run.thread)
    return { way, sameBlock: false, who: 'an earlier block', line: '' };
  // The first thread is remembered; if that is the running one, another of several followed.
  const other = who === run.thread ? 'another thread' : run.nameThread(who);
  return { way, sameBlock: true, who: other, line };
}

/** Stop at a race of the running thread's access with an earlier one. */
export function reportRace(run: Run, name: string, way: AccessKind, earlier: Rival, site: number): never {
  return run.fail(
    'race',
    `a race on ${name}: ${run.nameThread(run.thread)} ${DOES[way]} what ${earlier.who} ` +
      `${DONE[earlier.way]}${earlier.line}, ` +
      (earlier.sameBlock
        ? 'with no barrier between them. Put a barrier() between the two, or use an atomic.'
        : 'and nothing orders blocks. Give each block its own elements, or use atomics for all of it.'),
    site,
  );
}
