__device__ inline int index_below(unsigned i, unsigned end) { __builtin_assume(i < end); return i; }
__device__ inline float nan_max(float a, float b) { float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }

extern "C" __global__ void row_max(const float* x, float* y, int columns) {
  alignas(16) extern __shared__ unsigned char dynamic_shared[];
  float* const scratch = reinterpret_cast<float*>(dynamic_shared);
  // let best = f32(-Infinity);
  float best = __uint_as_float(0xff800000u);
  // for (let j = threadIdx.x; j < columns; j += blockDim.x)
  for (int j = index_below(threadIdx.x, 1024); j < columns; j += index_below(blockDim.x, 1025)) {
    // best = Math.max(best, x[blockIdx.x * columns + j]);
    best = nan_max(best, x[index_below(blockIdx.x, 0x7fffffff) * columns + j]);
  }
  // scratch[threadIdx.x] = best;
  scratch[index_below(threadIdx.x, 1024)] = best;
  // barrier();
  __syncthreads();
  // let width = blockDim.x >> 1;
  int width = index_below(blockDim.x, 1025) >> 1;
  // while (width > 0) {
  while (width > 0) {
    // if (threadIdx.x < width) {
    if (index_below(threadIdx.x, 1024) < width) {
      // scratch[threadIdx.x] = Math.max(scratch[threadIdx.x], scratch[threadIdx.x + width]);
      scratch[index_below(threadIdx.x, 1024)] = nan_max(scratch[index_below(threadIdx.x, 1024)], scratch[index_below(threadIdx.x, 1024) + width]);
    }
    // barrier();
    __syncthreads();
    // width = width >> 1;
    width = width >> 1;
  }
  // if (threadIdx.x === 0) y[blockIdx.x] = scratch[0];
  if (index_below(threadIdx.x, 1024) == 0) {
    y[index_below(blockIdx.x, 0x7fffffff)] = scratch[0];
  }
}
