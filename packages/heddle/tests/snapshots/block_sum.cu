__device__ inline int index_below(unsigned i, unsigned end) { __builtin_assume(i < end); return i; }
__device__ inline float warp_sum_f32(float v) { for (int by = 16; by > 0; by >>= 1) v = v + __shfl_xor_sync(0xffffffffu, v, by); return v; }
__device__ inline int lane_id() { unsigned id; asm("mov.u32 %0, %%laneid;" : "=r"(id)); __builtin_assume(id < 32); return id; }
__device__ inline int warp_id() { return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32u; }

extern "C" __global__ void block_sum(const float* x, float* sums, int n) {
  __shared__ alignas(16) float partial[32];
  // let sum = f32(0);
  float sum = 0.0f;
  // for (let i = globalId.x; i < n; i += blockDim.x * gridDim.x) sum += x[i];
  for (int i = index_below(blockIdx.x, 0x7fffffff) * index_below(blockDim.x, 1025) + index_below(threadIdx.x, 1024), i_step = index_below(blockDim.x, 1025) * index_below(gridDim.x, 0x80000000); i < n; i += i_step) {
    sum = sum + x[i];
  }
  // sum = warpSum(sum);
  const float warpSum = warp_sum_f32(sum);
  sum = warpSum;
  // if (laneId === 0) partial[warpId] = sum;
  if (lane_id() == 0) {
    partial[warp_id()] = sum;
  }
  // barrier();
  __syncthreads();
  // if (warpId === 0) {
  if (warp_id() == 0) {
    // sum = laneId < idiv(blockDim.x, 32) ? partial[laneId] : 0;
    sum = lane_id() < index_below(blockDim.x, 1025) / 32 ? partial[lane_id()] : 0.0f;
    // for (let by = 16; by > 0; by >>= 1) sum += shuffleDown(sum, by);
    int by = 16;
    for (; by > 0; by = by >> 1) {
      const float t = sum;
      const float shuffleDown = __shfl_down_sync(0xffffffffu, sum, by);
      sum = t + shuffleDown;
    }
    // if (laneId === 0) sums[blockIdx.x] = sum;
    if (lane_id() == 0) {
      sums[index_below(blockIdx.x, 0x7fffffff)] = sum;
    }
  }
}
