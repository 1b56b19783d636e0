/**
 * What works beside the threads of a block, as kernel/ir/asynchronous.ts lists it: mbarriers, the copy engine and the tensor
 * cores of warpgroups. Copies and products are made where they are started; what has not been waited for is found by who
 * knows of what (clocks.ts), so that a finding does not depend on the order in which threads run here.
 */

import { type DType, f32 } from '../../core/dtype.js';
import { sumAt, WARPGROUP, WGMMA_ROWS, wgmmaDepth } from '../../kernel/ir/asynchronous.js';
import type { ArrayDecl } from '../../kernel/ir/ir.js';
import { evaluate } from '../../kernel/ir/ops.js';
import type { TensorMap } from '../../kernel/ir/types.js';
import { AccessHistory, STORES_TILE } from './access-history.js';
import { eachOfBox, startOfBox } from './boxes.js';
import { ClockedMemory } from './clocked-memory.js';
import { type Actor, Clocks } from './clocks.js';
import { ClusterUnit } from './cluster.js';
import { Mbarriers, MbarrierUnit } from './mbarriers.js';
import type { At, SumsMemory, WatchedMemory } from './memory.js';
import { heldOperand, sumWith, tileOperand } from './operands.js';
import type { BlockTime, Run } from './run.js';

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

export class AsyncEngine {
  readonly #run: Run;
  readonly #maps = new Map<WatchedMemory, TensorMap>();
  /** Of each shared array, the memory of each block of a cluster. */
  readonly #memories = new Map<ArrayDecl, ClockedMemory[]>();
  readonly #barriers = new Map<ArrayDecl, Mbarriers[]>();
  /** Of each buffer in global memory. */
  readonly #histories = new Map<ArrayBufferLike, AccessHistory>();
  /** Threads of a cluster. */
  readonly #count: number;
  clocks: Clocks;
  #products: Groups[] = [];
  #stores: Groups[] = [];
  readonly mbarriers: MbarrierUnit;
  readonly cluster: ClusterUnit;

  constructor(run: Run) {
    this.#run = run;
    this.#count = run.threads * run.clusterSize;
    this.clocks = new Clocks(this.#count);
    this.mbarriers = new MbarrierUnit(run, this);
    this.cluster = new ClusterUnit(run, this);
  }

  /** What a parameter's map says of its memory. */
  describe(memory: WatchedMemory, map: TensorMap): void {
    this.#maps.set(memory, map);
  }

  /** What has been done to a buffer. Parameters that look at the same memory share it. */
  historyOf(buffer: ArrayBufferLike): AccessHistory {
    const known = this.#histories.get(buffer) ?? new AccessHistory(this.#run, false);
    this.#histories.set(buffer, known);
    return known;
  }

  /** The thread that runs now. */
  thread(site: number): Actor {
    const agent = this.#run.inCluster();
    return this.clocks.actor(agent, site);
  }

  /** The memory of a shared array, of the next block of a cluster. */
  shared(decl: ArrayDecl, dynamic: ArrayBuffer): ClockedMemory | Mbarriers {
    const next = <M>(known: Map<ArrayDecl, M[]>, make: (rank: number) => M): M => {
      const blocks = known.get(decl) ?? [];
      known.set(decl, blocks);
      const made = make(blocks.length);
      blocks.push(made);
      return made;
    };
    return decl.form === 'barriers'
      ? next(this.#barriers, (rank) => new Mbarriers(decl, rank))
      : next(this.#memories, (rank) => new ClockedMemory(this.#run, decl, dynamic, this, rank));
  }

  beginCluster(): void {
    this.clocks = new Clocks(this.#count);
    for (const memory of [...this.#memories.values()].flat()) memory.begin(this.clocks);
    for (const history of this.#histories.values()) history.begin();
    for (const { list } of [...this.#barriers.values()].flat()) list.fill(undefined);
    this.cluster.begin();
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
  endCluster(blocks: readonly BlockTime[]): void {
    const run = this.#run;
    const left = this.#stores.findIndex(({ committed, done, open }) => open || committed > done);
    if (left >= 0) {
      run.resume(blocks[Math.floor(left / run.threads)]!);
      run.fail(
        'unfinished',
        'the block ends while tmaStore may still read its tiles. Call tmaCommit() and tmaWait(0) before the end.',
        this.#stores[left]!.site,
        left % run.threads,
      );
    }
    this.cluster.end(blocks);
  }

  // ── Clusters ───────────────────────────────────────────────────────────────────────────────────────────────────

  arriveCluster(site: number): void {
    this.cluster.arrive(site);
  }

  /** The same memory of another block of the cluster. */
  #peerOf<M extends ClockedMemory | Mbarriers>(memory: M, rank: number, what: string, site: number): M {
    const all = (memory instanceof Mbarriers ? this.#barriers : this.#memories).get(memory.decl) as M[];
    return (
      all[rank] ??
      this.#run.fail(
        'out-of-bounds',
        `${what} names block ${rank} of a cluster of ${all.length}: launch with { cluster }.`,
        site,
      )
    );
  }

  /** The element at a place of another block's shared array, which is read. */
  remote(memory: ClockedMemory, element: number, rank: number, site: number): ClockedMemory['data'] {
    const peer = this.#peerOf(memory, rank, 'loadRemote', site);
    peer.read(element, site);
    const me = this.#run.inCluster();
    this.cluster.reach(rank, `loadRemote() reads ${memory.decl.name} of`, site, me, this.clocks.stepOf(me));
    return peer.data;
  }

  // ── mbarriers ──────────────────────────────────────────────────────────────────────────────────────────────────

  initBarrier(site: number, at: At<Mbarriers>, arrivals: number): void {
    this.mbarriers.init(site, at, arrivals);
  }

  arrive(site: number, at: At<Mbarriers>): void {
    this.mbarriers.arrive(site, at);
  }

  arriveExpect(site: number, at: At<Mbarriers>, bytes: number): void {
    this.mbarriers.arrive(site, at, bytes);
  }

  arriveRemote(site: number, [barriers, index]: At<Mbarriers>, rank: number): void {
    const remote = this.#peerOf(barriers, rank, 'arriveRemote', site);
    const me = this.#run.inCluster();
    this.cluster.reach(
      rank,
      `arriveRemote() arrives at ${barriers.name} of`,
      site,
      me,
      this.clocks.stepOf(me),
    );
    this.mbarriers.arrive(site, [remote, index]);
  }

  storeRemote(
    site: number,
    [memory, indices]: At<ClockedMemory>,
    [barriers, index]: At<Mbarriers>,
    value: number,
    rank: number,
  ): void {
    const to = this.#peerOf(memory, rank, 'storeRemote', site);
    const full = this.#peerOf(barriers, rank, 'storeRemote', site);
    const me = this.#run.inCluster();
    const barrier = this.mbarriers.at(site, [full, index], this.#run.thread);
    const actor: Actor = {
      agent: this.clocks.agent(`what ${me} sends to ${full.name}[${index[0]}] of ${rank}`),
      step: barrier.phase + 1,
      knowledge: this.clocks.listOf(me),
      site,
      by: 'a store from another block',
    };
    barrier.arriving.see(actor.agent, actor.step);
    this.cluster.reach(rank, `storeRemote() writes ${memory.decl.name} of`, site, actor.agent, actor.step);
    const element = indices.reduce((sum, i, d) => sum * memory.decl.dims[d]! + i, 0);
    to.receive(actor, element);
    to.data[element] = value;
    barrier.bytes -= memory.decl.dtype.bytes;
    this.mbarriers.settle(barrier);
  }

  /** The arrival is that of the copies: it tells nothing else of what the thread has done. */
  arriveCopies(site: number, at: At<Mbarriers>): void {
    const barrier = this.mbarriers.comingTo(site, at);
    const me = this.#run.inCluster();
    const { agent, step } = this.clocks.copiesOf(me);
    barrier.arriving.see(agent, step);
    barrier.pending--;
    this.mbarriers.settle(barrier);
  }

  // ── The copy engine ────────────────────────────────────────────────────────────────────────────────────────────

  tmaLoad(site: number, to: At<ClockedMemory>, from: At<WatchedMemory>, at: At<Mbarriers>): void {
    const run = this.#run;
    const barrier = this.mbarriers.at(site, at, run.thread);
    const [tile] = to;
    const { rank } = at[0];
    const actor: Actor = {
      agent: this.clocks.agent(`copies ${at[0].name}[${at[1][0]}] of ${rank}`),
      step: barrier.phase + 1,
      knowledge: this.clocks.listOf(run.inCluster()),
      site,
      by: 'a tile copy',
      isAsync: true,
    };
    barrier.arriving.see(actor.agent, actor.step);
    this.cluster.reach(
      rank,
      `tmaLoadMulticast() copies to ${tile.decl.name} of`,
      site,
      actor.agent,
      actor.step,
    );
    const map = this.#maps.get(from[0])!;
    const start = startOfBox(run, tile, to[1], site);
    const count = eachOfBox(run, map, from[1], site, (n, element) => {
      tile.writeBy(actor, start + n);
      if (element < 0) tile.data[start + n] = 0;
      else {
        const v = from[0].data[from[0].read(element, site, actor)]!;
        tile.data[start + n] = map.tf32 ? (evaluate('tf32', f32, v as number) as number) : v;
      }
    });
    barrier.bytes -= count * tile.decl.dtype.bytes;
    this.mbarriers.settle(barrier);
  }

  tmaLoadMulticast(
    site: number,
    [tile, place]: At<ClockedMemory>,
    from: At<WatchedMemory>,
    [barriers, index]: At<Mbarriers>,
    mask: number,
  ): void {
    const size = this.#run.clusterSize;
    if (mask <= 0 || mask >= 2 ** size)
      this.#run.fail(
        'out-of-bounds',
        `tmaLoadMulticast: the mask ${mask} has a bit for each block that it copies to, of a cluster of ${size}: 1 to ${2 ** size - 1}.`,
        site,
      );
    for (let rank = 0; rank < size; rank++) {
      if (((mask >> rank) & 1) === 0) continue;
      const to = this.#peerOf(tile, rank, 'tmaLoadMulticast', site);
      this.tmaLoad(site, [to, place], from, [this.#peerOf(barriers, rank, 'tmaLoadMulticast', site), index]);
    }
  }

  tmaStore(site: number, to: At<WatchedMemory>, from: At<ClockedMemory>): void {
    const thread = this.#run.inCluster();
    const groups = this.#stores[thread]!;
    groups.open = true;
    groups.site = site;
    const [tile] = from;
    const actor: Actor = {
      agent: this.clocks.agent(`stores of ${thread}`),
      step: groups.committed + 1,
      knowledge: this.clocks.listOf(thread),
      site,
      by: 'a tile store',
      isAsync: true,
    };
    // Waiting for the group says that its tiles have been read, not that they have been written.
    const storing: Actor = {
      ...actor,
      agent: this.clocks.agent(`tiles that ${thread} stores`),
      by: STORES_TILE,
    };
    const start = startOfBox(this.#run, tile, from[1], site);
    eachOfBox(this.#run, this.#maps.get(to[0])!, to[1], site, (n, element) => {
      if (element < 0) return;
      tile.readBy(actor, start + n);
      to[0].data[to[0].write(element, site, storing)] = tile.data[start + n]!;
    });
  }

  tmaCommit(_site: number): void {
    const groups = this.#stores[this.#run.inCluster()]!;
    groups.committed++;
    groups.open = false;
  }

  tmaWait(_site: number, left: number): void {
    const thread = this.#run.inCluster();
    this.#wait(this.#stores[thread]!, left, thread, `stores of ${thread}`);
  }

  fenceAsync(_site: number): void {
    this.clocks.fence(this.#run.inCluster());
  }

  // ── The tensor cores of a warpgroup ────────────────────────────────────────────────────────────────────────────

  /** All threads of a warpgroup have come to one wgmma. @param first the first of them */
  wgmma(site: number, first: number, lanes: readonly WgmmaArguments[]): void {
    const run = this.#run;
    const [[sums, rowOfSums], a, b, transposedA, transposedB, fresh] = lanes[0]!;
    const same = (these: readonly number[], those: readonly number[]): boolean =>
      these.length === those.length && these.every((index, d) => index === those[d]);
    const other = lanes.findIndex(
      ([[, s], [, x], [, y]]) => !(same(s, rowOfSums) && same(x, a[1]) && same(y, b[1])),
    );
    if (other >= 0)
      run.fail(
        'divergent-barrier',
        `wgmma() names other places in ${run.nameThread(first + other)} than in ${run.nameThread(first)}: ` +
          'all threads of a warpgroup multiply the same tiles.',
        site,
        first + other,
      );
    run.thread = first;
    const from = run.inCluster(first);
    const group = this.#products[from]!.committed + 1;
    const actor: Actor = {
      agent: this.clocks.agent(`products of ${from}`),
      step: group,
      knowledge: lanes.map((_, i) => this.clocks.of(from + i)),
      site,
      by: 'wgmma',
      isAsync: true,
    };
    const count = sums.decl.dims.at(-1)!;
    const columns = 2 * count;
    const depth = wgmmaDepth(b[0].decl.dtype.bytes);
    const left =
      a[0] instanceof ClockedMemory
        ? tileOperand(run, actor, [a[0], a[1]], WGMMA_ROWS, depth, transposedA)
        : this.#lent(lanes, b[0].decl.dtype, group, site, first);
    const right = tileOperand(run, actor, b, columns, depth, transposedB);
    const base = rowOfSums.reduce((sum, index, d) => sum * sums.decl.dims[d]! + index, 0) * count;
    lanes.forEach(([[own]], thread) => {
      this.#products[from + thread]!.open = true;
      own.multiplied(group, site, first + thread, fresh ? { base, count } : undefined);
      const held = own.data as Float32Array | Int32Array;
      for (let i = 0; i < count; i++) {
        const [row, column] = sumAt(thread, i);
        // Rounded to f32 by the array, or whole modulo 2³².
        held[base + i] = sumWith(
          fresh ? 0 : held[base + i]!,
          left,
          row * depth,
          right,
          column * depth,
          depth,
        );
      }
    });
  }

  clearSums(site: number, [sums]: At<SumsMemory>): void {
    sums.clear(site);
  }

  fenceWgmma(_site: number, [sums]: At<SumsMemory>): void {
    sums.fence();
  }

  commitWgmma(_site: number): void {
    const groups = this.#products[this.#run.inCluster()]!;
    groups.committed++;
    groups.open = false;
  }

  waitWgmma(_site: number, [sums]: At<SumsMemory>, left: number): void {
    const run = this.#run;
    const thread = run.inCluster();
    const first = thread - (run.thread % WARPGROUP);
    const groups = this.#products[thread]!;
    const done = this.#wait(groups, left, thread, `products of ${first}`);
    sums.settle(done);
    if (left === 0) sums.giveBack();
    for (const operand of groups.reads) if (operand.settle(done)) groups.reads.delete(operand);
  }

  /** These threads of the block have met. */
  meet(threads: readonly number[]): void {
    this.clocks.meet(threads.map((thread) => this.#run.inCluster(thread)));
  }

  raiseRegisters(): void {}

  lowerRegisters(): void {}

  /** The groups that are done, which the thread now knows of. */
  #wait(groups: Groups, left: number, thread: number, agent: string): number {
    groups.done = Math.max(groups.done, groups.committed - left);
    this.clocks.of(thread).see(this.clocks.agent(agent), groups.done);
    return groups.done;
  }

  /** A left operand in registers, which must not change until the group is done. */
  #lent(
    lanes: readonly WgmmaArguments[],
    dtype: DType,
    group: number,
    site: number,
    first: number,
  ): Float64Array {
    const threads = lanes.map(([, a]) => a as At<SumsMemory>);
    threads.forEach(([own], thread) => {
      own.lent(group, site, first + thread);
      this.#products[this.#run.inCluster(first + thread)]!.reads.add(own);
    });
    return heldOperand(threads, dtype);
  }
}
