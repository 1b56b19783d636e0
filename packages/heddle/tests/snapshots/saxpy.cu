__device__ inline int index_below(unsigned i, unsigned end) { __builtin_assume(i < end); return i; }

extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
  // const i = globalId.x;
  const int i = index_below(blockIdx.x, 0x7fffffff) * index_below(blockDim.x, 1025) + index_below(threadIdx.x, 1024);
  // if (i < n) y[i] = a * x[i] + y[i];
  if (i < n) {
    y[i] = a * x[i] + y[i];
  }
}
