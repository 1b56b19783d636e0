__device__ inline int index_below(unsigned i, unsigned end) { __builtin_assume(i < end); return i; }
__device__ inline int wrap_mul(int a, int b) { return (int)((unsigned int)a * (unsigned int)b); }
__device__ inline int wrap_add(int a, int b) { return (int)((unsigned int)a + (unsigned int)b); }

extern "C" __global__ void collatz(const int* x, int* steps, int n, int limit) {
  // const i = globalId.x;
  const int i = wrap_add(wrap_mul(index_below(blockIdx.x, 0x7fffffff), index_below(blockDim.x, 1025)), index_below(threadIdx.x, 1024));
  // if (i >= n) return;
  if (i >= n) {
    return;
  }
  // let value = x[i];
  int value = x[i];
  // let count = 0;
  int count = 0;
  // while (true) {
  while (true) {
    // if (value <= 1) break;
    if (value <= 1) {
      break;
    }
    // if (count === limit) {
    if (count == limit) {
      // count = -1;
      count = -1;
      // break;
      break;
    } else if ((value & 1) == 0) {  // } else if ((value & 1) === 0) {
      // value = idiv(value, 2);
      value = value / 2;
      // count++;
      count = wrap_add(count, 1);
      // continue;
      continue;
    } else {
      // value = 3 * value + 1;
      value = wrap_add(wrap_mul(3, value), 1);
    }
    // for (let skip = 0; skip < 2; skip++) {
    #pragma unroll
    for (int skip = 0; skip < 2; skip++) {
      // if (value % 2 !== 0) break;
      if (value % 2 != 0) {
        break;
      }
      // value = idiv(value, 2);
      value = value / 2;
      // count += 1;
      count = wrap_add(count, 1);
    }
    // count++;
    count = wrap_add(count, 1);
  }
  // steps[i] = count;
  steps[i] = count;
}
