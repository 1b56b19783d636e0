/**
 * What works beside the threads of a block, as kernel/ir/asynchronous.ts lists it: mbarriers, the copy engine and the tensor
 * cores of warpgroups. Copies and products are made where they are started; what has not been waited for is found by who
 * knows of what (clocks.ts), so that a finding does not depend on the order in which threads run here.
 */

import { type DType, type DTypeName, f32, viewAs } from '../../core/dtype.js';
import { fromBf16, fromF16 } from '../../core/float16.js';
import { sizeOf } from '../../core/shape.js';
import {
  sumAt,
  WARPGROUP,
  WGMMA_ROWS,
  WGMMA_WORDS,
  wgmmaDepth,
  wordAt,
} from '../../kernel/ir/asynchronous.js';
import type { ArrayDecl } from '../../kernel/ir/ir.js';
import { evaluate } from '../../kernel/ir/ops.js';
import { cutToTf32 } from '../../kernel/ir/tensor-core.js';
import { type TensorMap, walkReach } from '../../kernel/ir/types.js';
import { type Actor, ClockedMemory } from './clocked-memory.js';
import { Clocks, Knowledge } from './clocks.js';
import type { SumsMemory, WatchedMemory } from './memory.js';
import type { Run } from './run.js';

/** A memory and the indices of a place in it, as a kernel's JavaScript passes them. */
type At<M> = readonly [memory: M, indices: readonly number[]];

/** An mbarrier in its current phase. */
interface Mbarrier {
  readonly arrivals: number;
  /** Who began it, for those who use it: they must know. */
  readonly begun: { readonly thread: number; readonly step: number };
  phase: number;
  /** Arrivals and bytes that the phase still waits for. */
  pending: number;
  bytes: number;
  /** What those who have arrived know, and what they knew who completed the last phase. */
  arriving: Knowledge;
  completed: Knowledge;
}

export class Mbarriers {
  readonly name: string;
  readonly data = undefined;
  readonly list: (Mbarrier | undefined)[];

  constructor({ name, dims }: ArrayDecl) {
    this.name = name;
    this.list = Array<undefined>(dims[0]!).fill(undefined);
  }
}

/** What a warpgroup multiplies: lanes' arguments of one wgmma. */
type WgmmaArguments = readonly [
  sums: At<SumsMemory>,
  a: At<ClockedMemory | SumsMemory>,
  b: At<ClockedMemory>,
  transposedA: boolean,
  transposedB: boolean,
  fresh: boolean,
];

/** Groups of work that a thread has committed, and how many of them it knows to be done. */
interface Groups {
  committed: number;
  done: number;
  /** Something has been started since the last group. */
  open: boolean;
  /** Where the last of it was started. */
  site: number;
  /** The thread's registers that it reads. */
  readonly reads: Set<SumsMemory>;
}

const MULTIPLIED: Readonly<Partial<Record<DTypeName, (stored: number) => number>>> = {
  ...{ bf16: fromBf16, f16: fromF16, f32: cutToTf32 },
};

/** The number that tensor cores take for an element, as it is stored. */
const multiplied = ({ name }: DType, stored: number): number => MULTIPLIED[name]?.(stored) ?? stored;

export class AsyncEngine {
  readonly #run: Run;
  readonly #maps = new Map<WatchedMemory, TensorMap>();
  readonly #memories: ClockedMemory[] = [];
  readonly #barriers: Mbarriers[] = [];
  readonly #count: number;
  clocks: Clocks;
  #products: Groups[] = [];
  #stores: Groups[] = [];

  constructor(run: Run) {
    this.#run = run;
    this.#count = run.blockDim[0] * run.blockDim[1] * run.blockDim[2];
    this.clocks = new Clocks(this.#count);
  }

  /** What a parameter's map says of its memory. */
  describe(memory: WatchedMemory, map: TensorMap): void {
    this.#maps.set(memory, map);
  }

  /** The memory of a shared array. */
  shared(decl: ArrayDecl, sharedBytes: number): ClockedMemory | Mbarriers {
    if (decl.form === 'barriers') {
      const barriers = new Mbarriers(decl);
      this.#barriers.push(barriers);
      return barriers;
    }
    const memory = new ClockedMemory(this.#run, decl, sharedBytes);
    this.#memories.push(memory);
    return memory;
  }

  beginBlock(): void {
    this.clocks = new Clocks(this.#count);
    for (const memory of this.#memories) memory.begin(this.clocks);
    for (const { list } of this.#barriers) list.fill(undefined);
    const groups = (): Groups[] =>
      Array.from({ length: this.#count }, () => ({
        committed: 0,
        done: 0,
        open: false,
        site: 0,
        reads: new Set(),
      }));
    this.#products = groups();
    this.#stores = groups();
  }

  /** All threads have returned. */
  endBlock(): void {
    const left = this.#stores.findIndex(({ committed, done, open }) => open || committed > done);
    if (left >= 0)
      this.#run.fail(
        'unfinished',
        'the block ends while tmaStore may still read its tiles. Call tmaCommit() and tmaWait(0) before the end.',
        this.#stores[left]!.site,
        left,
      );
  }

  // ── mbarriers ──────────────────────────────────────────────────────────────────────────────────────────────────

  initBarrier(site: number, [barriers, [i]]: At<Mbarriers>, arrivals: number): void {
    const run = this.#run;
    if (arrivals < 1)
      run.fail('mbarrier', `initBarrier: a phase needs 1 arrival or more, got ${arrivals}.`, site);
    this.#mustBeIn(barriers, i!, site);
    const begun = { thread: run.thread, step: this.clocks.stepOf(run.thread) };
    const fresh = {
      phase: 0,
      pending: arrivals,
      bytes: 0,
      arriving: new Knowledge(),
      completed: new Knowledge(),
    };
    barriers.list[i!] = { arrivals, begun, ...fresh };
  }

  arrive(site: number, at: At<Mbarriers>): void {
    this.#arrive(site, at, 0);
  }

  arriveExpect(site: number, at: At<Mbarriers>, bytes: number): void {
    this.#arrive(site, at, bytes);
  }

  /** Whether the phase of that parity is complete; the thread then knows what those knew who completed it. */
  mayPass(site: number, thread: number, at: At<Mbarriers>, parity: number): boolean {
    const barrier = this.#barrierAt(site, at, thread);
    if ((barrier.phase & 1) === (parity & 1)) return false;
    this.clocks.of(thread).learn(barrier.completed);
    return true;
  }

  /** Whether somebody has come in the current phase of an mbarrier. */
  hasBegun([barriers, [i]]: At<Mbarriers>): boolean {
    const { pending, arrivals, bytes } = barriers.list[i!]!;
    return pending < arrivals || bytes !== 0;
  }

  /** Why a thread waits at an mbarrier for ever. */
  explainWait([barriers, [i]]: At<Mbarriers>, parity: number): string {
    const { phase, pending, arrivals, bytes } = barriers.list[i!]!;
    return (
      `waitBarrier(${barriers.name}[${i}], ${parity & 1}) waits for ever: phase ${phase} lacks ${pending} of ` +
      `${arrivals} arrivals` +
      (bytes === 0 ? '.' : ` and ${bytes} bytes of tiles: arriveExpect names the bytes of all its tmaLoad.`)
    );
  }

  #arrive(site: number, at: At<Mbarriers>, bytes: number): void {
    const run = this.#run;
    const barrier = this.#barrierAt(site, at, run.thread);
    if (barrier.pending === 0)
      run.fail(
        'mbarrier',
        `${at[0].name}[${at[1][0]}]: all ${barrier.arrivals} arrivals of phase ${barrier.phase} are there already. ` +
          'Does initBarrier name as many arrivals as there are?',
        site,
      );
    barrier.bytes += bytes;
    barrier.pending--;
    this.clocks.release(run.thread, barrier.arriving);
    this.#settle(barrier);
  }

  #settle(barrier: Mbarrier): void {
    if (barrier.pending > 0 || barrier.bytes !== 0) return;
    barrier.completed = barrier.arriving;
    barrier.arriving = new Knowledge();
    barrier.phase++;
    barrier.pending = barrier.arrivals;
  }

  #mustBeIn({ name, list }: Mbarriers, i: number, site: number): void {
    if (i < 0 || i >= list.length)
      this.#run.fail('out-of-bounds', `${name}[${i}] is outside 0 to ${list.length - 1}.`, site);
  }

  #barrierAt(site: number, [barriers, [i]]: At<Mbarriers>, thread: number): Mbarrier {
    this.#mustBeIn(barriers, i!, site);
    const barrier = barriers.list[i!];
    if (!barrier || !this.clocks.of(thread).hasSeen(barrier.begun.thread, barrier.begun.step))
      return this.#run.fail(
        'mbarrier',
        `${barriers.name}[${i}] is used before it is initialized: one thread calls initBarrier, then all a barrier().`,
        site,
        thread,
      );
    return barrier;
  }

  // ── The copy engine ────────────────────────────────────────────────────────────────────────────────────────────

  tmaLoad(site: number, to: At<ClockedMemory>, from: At<WatchedMemory>, at: At<Mbarriers>): void {
    const { thread } = this.#run;
    const barrier = this.#barrierAt(site, at, thread);
    const [tile] = to;
    const actor: Actor = {
      agent: this.clocks.agent(`copies ${at[0].name}[${at[1][0]}]`),
      step: barrier.phase + 1,
      knowledge: [this.clocks.of(thread)],
      site,
      by: 'a tile copy',
    };
    barrier.arriving.seen[actor.agent] = actor.step;
    const { tf32 } = this.#maps.get(from[0])!;
    const start = this.#startOf(tile, to[1], site);
    const count = this.#boxOf(from, site, (n, element) => {
      tile.writeBy(actor, start + n);
      if (element < 0) tile.data[start + n] = 0;
      else {
        const v = from[0].data[from[0].read(element, site)]!;
        tile.data[start + n] = tf32 ? (evaluate('tf32', f32, v as number) as number) : v;
      }
    });
    barrier.bytes -= count * tile.decl.dtype.bytes;
    this.#settle(barrier);
  }

  tmaStore(site: number, to: At<WatchedMemory>, from: At<ClockedMemory>): void {
    const { thread } = this.#run;
    const groups = this.#stores[thread]!;
    groups.open = true;
    groups.site = site;
    const [tile] = from;
    const actor: Actor = {
      agent: this.clocks.agent(`stores of ${thread}`),
      step: groups.committed + 1,
      knowledge: [this.clocks.of(thread)],
      site,
      by: 'a tile store',
    };
    const start = this.#startOf(tile, from[1], site);
    this.#boxOf(to, site, (n, element) => {
      if (element < 0) return;
      tile.readBy(actor, start + n);
      to[0].data[to[0].write(element, site)] = tile.data[start + n]!;
    });
  }

  tmaCommit(_site: number): void {
    const groups = this.#stores[this.#run.thread]!;
    groups.committed++;
    groups.open = false;
  }

  tmaWait(_site: number, left: number): void {
    const { thread } = this.#run;
    this.#wait(this.#stores[thread]!, left, thread, `stores of ${thread}`);
  }

  fenceAsync(_site: number): void {
    this.clocks.fence(this.#run.thread);
  }

  /** Call `visit` with the place in the tile and the element of the buffer, −1 outside of it; how many there are. */
  #boxOf(
    [memory, corner]: At<WatchedMemory>,
    site: number,
    visit: (n: number, element: number) => void,
  ): number {
    const map = this.#maps.get(memory)!;
    if (map.walk) return this.#pixelsOf(map, corner, site, visit);
    const { sizes, strides, box, offset } = map;
    const count = sizeOf(box);
    if (corner.length !== box.length) this.#run.fail('out-of-bounds', 'a box has other dimensions.', site);
    for (let n = 0; n < count; n++) {
      let rest = n;
      let element = offset;
      let inside = true;
      for (let d = box.length - 1; d >= 0; d--) {
        const index = corner[d]! + (rest % box[d]!);
        rest = Math.floor(rest / box[d]!);
        inside &&= index >= 0 && index < sizes[d]!;
        element += index * strides[d]!;
      }
      visit(n, inside ? element : -1);
    }
    return count;
  }

  /** The same of pixels that are walked over. @param at image, position along each dimension, channel, and offsets */
  #pixelsOf(
    map: TensorMap,
    at: readonly number[],
    site: number,
    visit: (n: number, element: number) => void,
  ): number {
    const { sizes, strides, box, offset, walk } = map;
    const { from, counts, steps = from.map(() => 1) } = walk!;
    const [pixels, channels] = box as [number, number];
    const rank = sizes.length;
    const first = at.slice(0, rank);
    // Where pixels are written there are none.
    const offsets = from.map((_, d) => at[rank + d] ?? 0);
    // Which pixel of the walk it is, along each dimension.
    const place = from.map((start, d) => (first[d + 1]! - start) / steps[d]!);
    const isAt = place.every((p, d) => Number.isInteger(p) && p >= 0 && p < counts[d]!);
    const reach = walkReach(from.length);
    if (!isAt || offsets.some((o) => o < 0 || o >= reach))
      this.#run.fail(
        'out-of-bounds',
        `a copy from (${first.join(', ')}) with offsets (${offsets.join(', ')}): it begins with a pixel of the walk, ` +
          `from (${from.join(', ')}) on in steps of (${steps.join(', ')}), (${counts.join(', ')}) of them; offsets are 0 to ${reach - 1}.`,
        site,
      );
    let image = first[0]!;
    for (let p = 0; p < pixels; p++) {
      const indices = [image, ...place.map((n, d) => from[d]! + n * steps[d]! + offsets[d]!)];
      const inside = indices.every((index, d) => index >= 0 && index < sizes[d]!);
      const pixel = indices.reduce((sum, index, d) => sum + index * strides[d]!, offset);
      for (let c = 0; c < channels; c++) {
        const channel = first[rank - 1]! + c;
        visit(p * channels + c, inside && channel >= 0 && channel < sizes[rank - 1]! ? pixel + channel : -1);
      }
      let d = place.length - 1;
      while (d >= 0 && place[d] === counts[d]! - 1) place[d--] = 0;
      if (d >= 0) place[d]!++;
      else image++;
    }
    return pixels * channels;
  }

  /** The first element of a box in a tile, which begins with a row. */
  #startOf(tile: ClockedMemory, indices: readonly number[], site: number): number {
    const { dims } = tile.decl;
    const start = indices.reduce((sum, index, d) => sum * dims[d]! + tile.dim(index, d, site), 0);
    if (indices.at(-1) !== 0 || (indices.at(-2)! * dims.at(-1)! * tile.decl.dtype.bytes) % 128 !== 0)
      this.#run.fail(
        'misaligned',
        `${tile.decl.name}[${indices.join('][')}]: a box begins with a row of its tile, at a multiple of 128 bytes.`,
        site,
      );
    return start;
  }

  // ── The tensor cores of a warpgroup ────────────────────────────────────────────────────────────────────────────

  /** All threads of a warpgroup have come to one wgmma. @param first the first of them */
  wgmma(site: number, first: number, lanes: readonly WgmmaArguments[]): void {
    const run = this.#run;
    const [[sums, rowOfSums], a, b, transposedA, transposedB, fresh] = lanes[0]!;
    const places = ([[, s], [, x], [, y]]: WgmmaArguments): string => `${s} ${x} ${y}`;
    const other = lanes.findIndex((each) => places(each) !== places(lanes[0]!));
    if (other >= 0)
      run.fail(
        'divergent-barrier',
        `wgmma() names other places in ${run.nameThread(first + other)} than in ${run.nameThread(first)}: ` +
          'all threads of a warpgroup multiply the same tiles.',
        site,
        first + other,
      );
    run.thread = first;
    const group = this.#products[first]!.committed + 1;
    const actor: Actor = {
      agent: this.clocks.agent(`products of ${first}`),
      step: group,
      knowledge: lanes.map((_, i) => this.clocks.of(first + i)),
      site,
      by: 'wgmma',
    };
    const count = sums.decl.dims.at(-1)!;
    const columns = 2 * count;
    const depth = wgmmaDepth(b[0].decl.dtype.bytes);
    const left =
      a[0] instanceof ClockedMemory
        ? this.#operand(actor, [a[0], a[1]], WGMMA_ROWS, depth, transposedA)
        : this.#held(lanes, b[0].decl.dtype, group, site, first);
    const right = this.#operand(actor, b, columns, depth, transposedB);
    const base = rowOfSums.reduce((sum, index, d) => sum * sums.decl.dims[d]! + index, 0) * count;
    lanes.forEach(([[own]], thread) => {
      this.#products[first + thread]!.open = true;
      own.multiplied(group, site, first + thread, fresh ? { base, count } : undefined);
      for (let i = 0; i < count; i++) {
        const [row, column] = sumAt(thread, i);
        let sum = fresh ? 0 : (own.data[base + i] as number);
        for (let k = 0; k < depth; k++) sum += left[row * depth + k]! * right[column * depth + k]!;
        // Rounded to f32 by the array, or whole modulo 2³².
        own.data[base + i] = sum;
      }
    });
  }

  fenceWgmma(_site: number, [sums]: At<SumsMemory>): void {
    sums.fence();
  }

  commitWgmma(_site: number): void {
    const groups = this.#products[this.#run.thread]!;
    groups.committed++;
    groups.open = false;
  }

  waitWgmma(_site: number, [sums]: At<SumsMemory>, left: number): void {
    const { thread } = this.#run;
    const first = thread - (thread % WARPGROUP);
    const groups = this.#products[thread]!;
    const done = this.#wait(groups, left, thread, `products of ${first}`);
    sums.settle(done);
    for (const operand of groups.reads) if (operand.settle(done)) groups.reads.delete(operand);
  }

  groupBarrier(threads: readonly number[]): void {
    this.clocks.meet(threads);
  }

  raiseRegisters(): void {}

  lowerRegisters(): void {}

  /** The groups that are done, which the thread now knows of. */
  #wait(groups: Groups, left: number, thread: number, agent: string): number {
    groups.done = Math.max(groups.done, groups.committed - left);
    this.clocks.of(thread).seen[this.clocks.agent(agent)] = groups.done;
    return groups.done;
  }

  /** The elements of a left operand in registers, as (row of the product, k). */
  #held(
    lanes: readonly WgmmaArguments[],
    dtype: DType,
    group: number,
    site: number,
    first: number,
  ): Float64Array {
    const depth = wgmmaDepth(dtype.bytes);
    const perWord = 4 / dtype.bytes;
    const out = new Float64Array(WGMMA_ROWS * depth);
    lanes.forEach(([, [memory, indices]], thread) => {
      const own = memory as SumsMemory;
      own.lent(group, site, first + thread);
      this.#products[first + thread]!.reads.add(own);
      const base = indices.reduce((sum, index, d) => sum * own.decl.dims[d]! + index, 0) * WGMMA_WORDS;
      const { buffer, byteOffset } = (own.data as Uint32Array).slice(base, base + WGMMA_WORDS);
      const elements = viewAs(dtype, buffer, byteOffset, WGMMA_WORDS * perWord);
      for (let i = 0; i < WGMMA_WORDS; i++) {
        const [row, byte] = wordAt(thread, i);
        for (let j = 0; j < perWord; j++)
          out[row * depth + byte / dtype.bytes + j] = multiplied(dtype, elements[i * perWord + j] as number);
      }
    });
    return out;
  }

  /** The elements of an operand, as (row or column of the product, k). */
  #operand(
    actor: Actor,
    [tile, indices]: At<ClockedMemory>,
    along: number,
    depth: number,
    transposed: boolean,
  ): Float64Array {
    const { dims, dtype, name } = tile.decl;
    const rank = dims.length;
    const [rows, row] = [dims[rank - 2]!, dims[rank - 1]!];
    const out = new Float64Array(along * depth);
    const outside = (): never =>
      this.#run.fail(
        'out-of-bounds',
        `wgmma reads ${along} × ${depth} elements from ${name}[${indices.join('][')}] on, beyond its sizes (${dims.join(',')}).`,
        actor.site,
      );
    const [i, j] = [indices[rank - 2]!, indices[rank - 1]!];
    if (i % 8 !== 0 || (transposed ? j % row !== 0 : (j * dtype.bytes) % 32 !== 0))
      this.#run.fail(
        'misaligned',
        `wgmma: ${name}[${indices.join('][')}]: an operand begins at a multiple of 8 rows and ` +
          `${transposed ? 'with a panel' : 'of 32 bytes of them'}.`,
        actor.site,
      );
    for (let r = 0; r < along; r++)
      for (let k = 0; k < depth; k++) {
        // Transposed: panels of `row` columns of the product, each of (k, column).
        const at = transposed ? [i + k, (j + r) % row] : [i + r, j + k];
        const panel = transposed ? Math.floor((j + r) / row) : 0;
        if (at[0]! >= rows || at[1]! >= row) outside();
        const lead = indices.slice(0, rank - 2);
        if (panel > 0) {
          if (rank < 3 || lead[rank - 3]! + panel >= dims[rank - 3]!) outside();
          lead[rank - 3]! += panel;
        }
        const element = [...lead, ...at].reduce(
          (sum, index, d) => sum * dims[d]! + tile.dim(index!, d, actor.site),
          0,
        );
        tile.readBy(actor, element);
        out[r * depth + k] = multiplied(dtype, tile.data[element] as number);
      }
    return out;
  }
}
