__device__ inline float nan_max(float a, float b) { float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }

extern "C" __global__ void row_max(const float* x, float* y, int columns) {
  alignas(16) extern __shared__ unsigned char dynamic_shared[];
  float* const scratch = reinterpret_cast<float*>(dynamic_shared);
  // let best = f32(-Infinity);
  float best = __uint_as_float(0xff800000u);
  // for (let j = threadIdx.x; j < columns; j += blockDim.x)
  for (int j = int(threadIdx.x); j < columns; j += int(blockDim.x)) {
    // best = Math.max(best, x[blockIdx.x * columns + j]);
    best = nan_max(best, x[int(blockIdx.x) * columns + j]);
  }
  // scratch[threadIdx.x] = best;
  scratch[int(threadIdx.x)] = best;
  // barrier();
  __syncthreads();
  // let width = blockDim.x >> 1;
  int width = int(blockDim.x) >> 1;
  // while (width > 0) {
  while (width > 0) {
    // if (threadIdx.x < width) {
    if (int(threadIdx.x) < width) {
      // scratch[threadIdx.x] = Math.max(scratch[threadIdx.x], scratch[threadIdx.x + width]);
      scratch[int(threadIdx.x)] = nan_max(scratch[int(threadIdx.x)], scratch[int(threadIdx.x) + width]);
    }
    // barrier();
    __syncthreads();
    // width = width >> 1;
    width = width >> 1;
  }
  // if (threadIdx.x === 0) y[blockIdx.x] = scratch[0];
  if (int(threadIdx.x) == 0) {
    y[int(blockIdx.x)] = scratch[0];
  }
}
