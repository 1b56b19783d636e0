__device__ inline int warp_id() { return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32u; }
__device__ inline float warp_sum_f32(float v) { for (int by = 16; by > 0; by >>= 1) v = v + __shfl_xor_sync(0xffffffffu, v, by); return v; }
__device__ inline float nan_max(float a, float b) { float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
__device__ inline float warp_max_f32(float v) { for (int by = 16; by > 0; by >>= 1) v = nan_max(v, __shfl_xor_sync(0xffffffffu, v, by)); return v; }
__device__ inline float nan_min(float a, float b) { float r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
__device__ inline float warp_min_f32(float v) { for (int by = 16; by > 0; by >>= 1) v = nan_min(v, __shfl_xor_sync(0xffffffffu, v, by)); return v; }
__device__ inline int lane_id() { int id; asm("mov.u32 %0, %%laneid;" : "=r"(id)); return id; }
__device__ inline float atomic_min_f32(float* place, float v) {
  unsigned* word = reinterpret_cast<unsigned*>(place);
  unsigned now = *word, before;
  do {
    before = now;
    const float old = __uint_as_float(before);
    now = atomicCAS(word, before, __float_as_uint(nan_min(old, v)));
  } while (now != before);
  return __uint_as_float(before);
}
__device__ inline float atomic_max_f32(float* place, float v) {
  unsigned* word = reinterpret_cast<unsigned*>(place);
  unsigned now = *word, before;
  do {
    before = now;
    const float old = __uint_as_float(before);
    now = atomicCAS(word, before, __float_as_uint(nan_max(old, v)));
  } while (now != before);
  return __uint_as_float(before);
}
__device__ inline float atomic_compare_exchange_f32(float* place, float v, float w) {
  unsigned* word = reinterpret_cast<unsigned*>(place);
  unsigned now = *word, before;
  do {
    before = now;
    const float old = __uint_as_float(before);
    now = atomicCAS(word, before, __float_as_uint(old == v ? w : old));
  } while (now != before);
  return __uint_as_float(before);
}

extern "C" __global__ void every_intrinsic_on_f32(const float* x, float* out, unsigned* votes) {
  __shared__ alignas(16) float tile[32];
  const float a = x[int(threadIdx.x)];
  __syncthreads();
  const float shuffle_result = __shfl_sync(0xffffffffu, a, 3);
  out[warp_id()] = shuffle_result;
  const float shuffleUp_result = __shfl_up_sync(0xffffffffu, a, 3);
  out[warp_id()] = shuffleUp_result;
  const float shuffleDown_result = __shfl_down_sync(0xffffffffu, a, 3);
  out[warp_id()] = shuffleDown_result;
  const float shuffleXor_result = __shfl_xor_sync(0xffffffffu, a, 3);
  out[warp_id()] = shuffleXor_result;
  const float warpSum_result = warp_sum_f32(a);
  out[warp_id()] = warpSum_result;
  const float warpMax_result = warp_max_f32(a);
  out[warp_id()] = warpMax_result;
  const float warpMin_result = warp_min_f32(a);
  out[warp_id()] = warpMin_result;
  const bool any_result = __any_sync(0xffffffffu, a == a) != 0;
  votes[lane_id()] = unsigned(any_result);
  const bool all_result = __all_sync(0xffffffffu, a == a) != 0;
  votes[lane_id()] = unsigned(all_result);
  const unsigned ballot_result = __ballot_sync(0xffffffffu, a == a);
  votes[lane_id()] = ballot_result;
  atomicAdd(&out[lane_id()], a);
  atomicAdd(&tile[lane_id()], a);
  atomicAdd(&out[lane_id()], -a);
  atomicAdd(&tile[lane_id()], -a);
  atomic_min_f32(&out[lane_id()], a);
  atomic_min_f32(&tile[lane_id()], a);
  atomic_max_f32(&out[lane_id()], a);
  atomic_max_f32(&tile[lane_id()], a);
  atomicExch(&out[lane_id()], a);
  atomicExch(&tile[lane_id()], a);
  atomic_compare_exchange_f32(&out[lane_id()], a, a);
  atomic_compare_exchange_f32(&tile[lane_id()], a, a);
}
