#ifndef __CUDACC_RTC__  // NVRTC declares it itself
extern "C" __device__ void __assertfail(const char*, const char*, unsigned, const char*, unsigned long long);
#endif

extern "C" __global__ void checked(const int* labels, const float* losses, int classes, int n) {
  // const i = globalId.x;
  const int i = int(blockIdx.x) * int(blockDim.x) + int(threadIdx.x);
  // if (i < n) {
  if (i < n) {
    // const label = labels[i];
    const int label = labels[i];
    // assert(label >= 0 && label < classes, 'label is one of the classes');
    if (!(label >= 0 && label < classes)) __assertfail("label is one of the classes", "cuda-kernels.ts", 142, "checked", 1);
    // const loss = losses[i];
    const float loss = losses[i];
    // if (!(loss < 100)) print('100% too high at {}: label {}, loss {}, "{}"', i, label, loss, loss > 0);
    if (!(loss < 100.0f)) {
      printf("100%% too high at %d: label %d, loss %g, \"%s\"\n", i, label, loss, loss > 0.0f ? "true" : "false");
    }
  }
}
