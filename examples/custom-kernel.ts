// A kernel with shared memory and barriers: the sum of each row, one block per row. And what the simulator says when
// a barrier is forgotten.
import { buffer, f32, i32, kernel, rand, SimulatorError, zeros } from 'heddle';

const THREADS = 128;

/** @param safe whether threads wait for each other between the rounds */
const rowSum = (safe: boolean) =>
  kernel(
    safe ? 'rowSum' : 'rowSumWithoutBarriers',
    { x: buffer(f32), sums: buffer(f32), columns: i32 },
    ({ x, sums, columns }, { threadIdx, blockIdx, shared, barrier, f32, idiv, THREADS, SAFE }) => {
      const partial = shared(f32, THREADS);
      const t = threadIdx.x;
      let sum = f32(0);
      for (let c = t; c < columns; c += THREADS) sum += x[blockIdx.x * columns + c];
      partial[t] = sum;
      // Halve the number of threads that hold a sum, until one holds it all.
      for (let half = idiv(THREADS, 2); half > 0; half = idiv(half, 2)) {
        if (SAFE) barrier();
        if (t < half) partial[t] = partial[t] + partial[t + half];
      }
      if (t === 0) sums[blockIdx.x] = partial[0];
    },
    { THREADS, SAFE: safe },
  );

const [rows, columns] = [6, 1000];
const x = rand([rows, columns]);
const sums = zeros([rows]);
await rowSum(true).launch({ grid: rows, block: THREADS }, { x, sums, columns });
console.log('by the kernel:', await sums.array());
console.log('by Tensor.sum:', await x.sum(1).array());

try {
  const data = { x: new Float32Array(columns), sums: new Float32Array(1), columns };
  rowSum(false).simulate({ grid: 1, block: THREADS }, data);
} catch (error) {
  if (!(error instanceof SimulatorError)) throw error;
  console.log(`\nwithout barriers, the simulator finds:\n${error.message}`);
}
