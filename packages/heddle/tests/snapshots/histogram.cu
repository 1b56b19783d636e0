__device__ inline int index_below(unsigned i, unsigned end) { __builtin_assume(i < end); return i; }

extern "C" __global__ void histogram(const unsigned char* x, unsigned* counts, int n) {
  __shared__ alignas(16) unsigned bins[256];
  // for (let b = threadIdx.x; b < 256; b += blockDim.x) bins[b] = 0;
  for (int b = index_below(threadIdx.x, 1024); b < 256; b += index_below(blockDim.x, 1025)) {
    bins[b] = 0u;
  }
  // barrier();
  __syncthreads();
  // for (let i = globalId.x; i < n; i += blockDim.x * gridDim.x) atomicAdd(bins, i32(x[i]), 1);
  for (int i = index_below(blockIdx.x, 0x7fffffff) * index_below(blockDim.x, 1025) + index_below(threadIdx.x, 1024), i_step = index_below(blockDim.x, 1025) * index_below(gridDim.x, 0x80000000); i < n; i += i_step) {
    atomicAdd(&bins[int(x[i])], 1u);
  }
  // barrier();
  __syncthreads();
  // for (let b = threadIdx.x; b < 256; b += blockDim.x) atomicAdd(counts, b, bins[b]);
  for (int b = index_below(threadIdx.x, 1024); b < 256; b += index_below(blockDim.x, 1025)) {
    atomicAdd(&counts[b], bins[b]);
  }
}
