/**
 * Kernels as one WebAssembly module. A kernel becomes a function over a range of blocks:
 *
 *   (…parameters, gridX, gridY, gridZ, start, end)
 *
 * Buffers are byte addresses, other parameters values. A block is one thread of work: threadIdx is 0 and blockDim 1.
 * Shared arrays, and local arrays that are not promoted to variables, lie in the thread's scratch memory, whose address
 * the mutable global 0 holds.
 */

import { topological } from '../../core/node.js';
import type { WaveName } from '../../kernel/elementary/functions.js';
import { type KernelIr, type Node, SCRATCH, type Special } from '../../kernel/ir/ir.js';
import { isBuffer } from '../../kernel/ir/types.js';
import { waveFunction } from '../../kernel/passes/decompose.js';
import type { Message } from '../message.js';
import { FunctionBuilder, type Local, ModuleBuilder } from './encode.js';
import { WasmExpressions } from './expressions.js';
import { HELPERS, type HelperName } from './ops.js';
import { Statements } from './statements.js';
import { fail, laneType } from './values.js';

export interface WasmKernel {
  readonly f: FunctionBuilder;
  /** Scratch memory it needs per thread, without its dynamic shared array, in bytes. */
  readonly scratchBytes: number;
}

/** The global that holds the address of a thread's scratch memory. */
export const SCRATCH_GLOBAL = 0;

/** A module under construction, kernels first. */
export class KernelModule {
  readonly module = new ModuleBuilder();
  /** What kernels may say: a failed assertion leaves its number, counted from 1. */
  readonly messages: Message[] = [];
  readonly fma: boolean;
  readonly #helpers = new Map<HelperName, FunctionBuilder>();

  /** @param options.fma whether to use f32x4.relaxed_madd */
  constructor(options: { readonly fma: boolean }) {
    this.fma = options.fma;
    this.module.global('scratch');
  }

  helper(name: HelperName): FunctionBuilder {
    let f = this.#helpers.get(name);
    if (!f) {
      f = this.module.add(name === 'sin' || name === 'cos' ? this.#wave(name) : HELPERS[name]());
      this.#helpers.set(name, f);
    }
    return f;
  }

  /** The sine or cosine of a large f64. */
  #wave(name: WaveName): FunctionBuilder {
    const { x, result, body } = waveFunction(name);
    const f = new FunctionBuilder(`large_${name}`, 'f64');
    const expressions = new WasmExpressions(f, this);
    expressions.variables.set(x, [f.param('x', 'f64')]);
    f.block('body', (end) => new Statements(expressions, f.name, [], end).emit(body));
    f.get(expressions.variable(result)[0]!);
    return f;
  }

  /**
   * @param ir a kernel that the passes have lowered
   * @param name the function's name in the module, which must be new to it
   * @param linear only for grids of one dimension: blockIdx.x is the block's number
   */
  add(ir: KernelIr, name: string = ir.name, linear = false): WasmKernel {
    const { once, scratchBytes } = ir.lowered ?? fail(`${ir.name} is not lowered`);
    const f = new FunctionBuilder(name);
    const x = new WasmExpressions(f, this);
    for (const p of ir.params) {
      x.params.set(p, f.param(p.name, isBuffer(p.schema) ? 'i32' : laneType(p.schema)));
    }
    const grid = AXES.map((axis) => f.param(`grid${axis.toUpperCase()}`, 'i32'));
    AXES.forEach((axis, i) => {
      x.specials.set(`gridDim.${axis}`, grid[i]!);
    });
    const start = f.param('start', 'i32');
    const end = f.param('end', 'i32');
    const scratch = f.local('scratch', 'i32');
    x.params.set(SCRATCH, scratch);
    const uses = specialsIn([once, ir.body]);
    const blocks = new BlockCounter(f, grid, start, linear ? new Set() : uses);
    if (linear) x.specials.set('blockIdx.x', start);
    for (const [special, local] of blocks.specials) x.specials.set(special, local);

    f.get(start);
    f.get(end);
    f.op('i32.lt_u');
    f.when(() => {
      f.op('global.get', SCRATCH_GLOBAL);
      f.set(scratch);
      blocks.begin();
      const prologue = new Statements(x, ir.name, this.messages, { name: '', depth: 0 });
      prologue.emit(once);
      f.loop('blocks', (again) => {
        f.block('return', (done) => {
          new Statements(x, ir.name, this.messages, done).emit(ir.body);
        });
        blocks.next();
        f.get(start);
        f.get(end);
        f.op('i32.lt_u');
        f.branch(again, 'br_if');
      });
    });
    return { f: this.module.add(f), scratchBytes: scratchBytes ?? 0 };
  }

  bytes(): Uint8Array<ArrayBuffer> {
    return this.module.bytes();
  }
  text(): string {
    return this.module.text();
  }
}

const AXES = ['x', 'y', 'z'] as const;

/** Counts through the blocks of a range: the linear number and, as far as they are used, the indices. */
class BlockCounter {
  readonly specials = new Map<Special, Local>();
  readonly #f: FunctionBuilder;
  readonly #grid: readonly Local[];
  readonly #linear: Local;
  readonly #axes: readonly Local[];

  constructor(f: FunctionBuilder, grid: readonly Local[], linear: Local, uses: ReadonlySet<Special>) {
    this.#f = f;
    this.#grid = grid;
    this.#linear = linear;
    const last = Math.max(-1, ...AXES.map((axis, i) => (uses.has(`blockIdx.${axis}`) ? i : -1)));
    this.#axes = AXES.slice(0, last + 1).map((axis) => f.local(`block${axis.toUpperCase()}`, 'i32'));
    this.#axes.forEach((local, i) => {
      this.specials.set(`blockIdx.${AXES[i]!}`, local);
    });
  }

  begin(): void {
    const f = this.#f;
    const rest = this.#axes.length > 1 ? f.local('rest', 'i32') : this.#linear;
    if (rest !== this.#linear) {
      f.get(this.#linear);
      f.set(rest);
    }
    this.#axes.forEach((axis, i) => {
      f.get(rest);
      f.get(this.#grid[i]!);
      f.op('i32.rem_u');
      f.set(axis);
      if (i + 1 < this.#axes.length) {
        f.get(rest);
        f.get(this.#grid[i]!);
        f.op('i32.div_u');
        f.set(rest);
      }
    });
  }

  next(): void {
    const f = this.#f;
    f.get(this.#linear);
    f.i32(1);
    f.op('i32.add');
    f.set(this.#linear);
    this.#step(0);
  }

  #step(i: number): void {
    const f = this.#f;
    const axis = this.#axes[i];
    if (!axis) return;
    f.get(axis);
    f.i32(1);
    f.op('i32.add');
    f.tee(axis);
    f.get(this.#grid[i]!);
    f.op('i32.eq');
    f.when(() => {
      f.i32(0);
      f.set(axis);
      this.#step(i + 1);
    });
  }
}

const specialsIn = (roots: readonly Node[]): Set<Special> =>
  new Set(topological(roots).flatMap((node) => (node.op === 'special' ? [node.arg] : [])));

/** The text of a lowered kernel's module, stable, for people and snapshots. */
export function wasmSource(ir: KernelIr, options: { readonly fma: boolean } = { fma: false }): string {
  const module = new KernelModule(options);
  module.add(ir);
  return module.text();
}
