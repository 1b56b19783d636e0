extern "C" __global__ void histogram(const unsigned char* x, unsigned* counts, int n) {
  __shared__ alignas(16) unsigned bins[256];
  // for (let b = threadIdx.x; b < 256; b += blockDim.x) bins[b] = 0;
  for (int b = int(threadIdx.x); b < 256; b += int(blockDim.x)) {
    bins[b] = 0u;
  }
  // barrier();
  __syncthreads();
  // for (let i = globalId.x; i < n; i += blockDim.x * gridDim.x) atomicAdd(bins, i32(x[i]), 1);
  for (int i = int(blockIdx.x) * int(blockDim.x) + int(threadIdx.x), i_step = int(blockDim.x) * int(gridDim.x); i < n; i += i_step) {
    atomicAdd(&bins[int(x[i])], 1u);
  }
  // barrier();
  __syncthreads();
  // for (let b = threadIdx.x; b < 256; b += blockDim.x) atomicAdd(counts, b, bins[b]);
  for (int b = int(threadIdx.x); b < 256; b += int(blockDim.x)) {
    atomicAdd(&counts[b], bins[b]);
  }
}
