extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
  // const i = globalId.x;
  const int i = int(blockIdx.x) * int(blockDim.x) + int(threadIdx.x);
  // if (i < n) y[i] = a * x[i] + y[i];
  if (i < n) {
    y[i] = a * x[i] + y[i];
  }
}
