/** The kernels of scans for GPUs, as a choice of the fused ops. */
import { f32, i32 } from '../../core/dtype.js';
import type { KernelChoice, KernelIo, Stage, StageArgument } from '../../graph/fused-op.js';
import { irFunction } from '../../kernel/ir/ir-function.js';
import { gridStage } from '../stage.js';
import { cutOf, scanChunks, scanTotals } from './cuda.js';
import { problemOf, type ScanArg, type ScanProblem } from './problem.js';

function cudaStages(io: KernelIo, arg: ScanArg): Stage[] {
  const problem = problemOf(io, arg);
  const { dtype } = io.output;
  const cut = cutOf(problem, io.target);
  if (cut.chunks === 1) return [gridStage(scanChunks(problem, dtype, cut), { input: 0 }, { output: true })];
  // The totals of the chunks are rows as well, and short enough for a block.
  const totals: ScanProblem = {
    op: arg.op,
    rows: problem.rows,
    n: cut.chunks,
    offset: 0,
    finish: irFunction(([v]) => v!),
  };
  const [own, running] = ['totals', 'running'].map((scratch) => ({
    scratch,
    bytes: problem.rows * cut.chunks * dtype.bytes,
  })) as [StageArgument, StageArgument];
  return [
    gridStage(scanTotals(problem, dtype, cut), { input: 0 }, own),
    gridStage(scanChunks(totals, dtype, { chunk: cut.chunks, chunks: 1 }), own, running),
    gridStage(scanChunks(problem, dtype, cut), { input: 0 }, { output: true }, running),
  ];
}

export const scanChoice = (name: string): KernelChoice<ScanArg> => ({
  name,
  when: ({ model }, { dtype }) => model === 'threads' && (dtype === f32 || dtype === i32),
  finishes: true,
  plan: cudaStages,
});
