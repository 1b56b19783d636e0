__device__ inline int index_below(unsigned i, unsigned end) { __builtin_assume(i < end); return i; }
__device__ inline int warp_id() { return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32u; }
__device__ inline float warp_sum_f32(float v) { for (int by = 16; by > 0; by >>= 1) v = v + __shfl_xor_sync(0xffffffffu, v, by); return v; }
__device__ inline float nan_max(float a, float b) { float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
__device__ inline float warp_max_f32(float v) { for (int by = 16; by > 0; by >>= 1) v = nan_max(v, __shfl_xor_sync(0xffffffffu, v, by)); return v; }
__device__ inline float nan_min(float a, float b) { float r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
__device__ inline float warp_min_f32(float v) { for (int by = 16; by > 0; by >>= 1) v = nan_min(v, __shfl_xor_sync(0xffffffffu, v, by)); return v; }
__device__ inline int lane_id() { unsigned id; asm("mov.u32 %0, %%laneid;" : "=r"(id)); __builtin_assume(id < 32); return id; }
struct alignas(16) f32x4 { float x, y, z, w; };
__device__ inline f32x4 splat_f32x4(float a) { return {a, a, a, a}; }
struct alignas(8) f32x2 { float x, y; };
__device__ inline f32x2 splat_f32x2(float a) { return {a, a}; }
__device__ inline f32x4 mma_tf32(f32x4 a, f32x2 b, f32x4 c) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w)
    : "r"(__float_as_uint(a.x)), "r"(__float_as_uint(a.y)), "r"(__float_as_uint(a.z)), "r"(__float_as_uint(a.w)), "r"(__float_as_uint(b.x)), "r"(__float_as_uint(b.y)));
  return c;
}
struct alignas(16) u32x4 { unsigned x, y, z, w; };
__device__ inline u32x4 splat_u32x4(unsigned a) { return {a, a, a, a}; }
struct alignas(8) u32x2 { unsigned x, y; };
__device__ inline u32x2 splat_u32x2(unsigned a) { return {a, a}; }
__device__ inline f32x4 mma_f16(u32x4 a, u32x2 b, f32x4 c) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w)
    : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
  return c;
}
__device__ inline f32x4 mma_bf16(u32x4 a, u32x2 b, f32x4 c) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w)
    : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
  return c;
}
struct alignas(16) i32x4 { int x, y, z, w; };
__device__ inline i32x4 splat_i32x4(int a) { return {a, a, a, a}; }
__device__ inline i32x4 mma_i8(u32x4 a, u32x2 b, i32x4 c) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    : "+r"(c.x), "+r"(c.y), "+r"(c.z), "+r"(c.w)
    : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
  return c;
}
__device__ inline u32x4 cast_u32x4(i32x4 a) { return {unsigned(a.x), unsigned(a.y), unsigned(a.z), unsigned(a.w)}; }
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ inline void wait_copies_3() { asm volatile("cp.async.wait_group 3;" ::: "memory"); }
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
  const float a = x[index_below(threadIdx.x, 1024)];
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
  const f32x4 mma_result = mma_tf32(splat_f32x4(3.0f), splat_f32x2(3.0f), splat_f32x4(3.0f));
  *reinterpret_cast<f32x4*>(out + warp_id()) = mma_result;
  const f32x4 mmaF16_result = mma_f16(splat_u32x4(3u), splat_u32x2(3u), splat_f32x4(3.0f));
  *reinterpret_cast<f32x4*>(out + warp_id()) = mmaF16_result;
  const f32x4 mmaBf16_result = mma_bf16(splat_u32x4(3u), splat_u32x2(3u), splat_f32x4(3.0f));
  *reinterpret_cast<f32x4*>(out + warp_id()) = mmaBf16_result;
  const i32x4 mmaI8_result = mma_i8(splat_u32x4(3u), splat_u32x2(3u), splat_i32x4(3));
  *reinterpret_cast<u32x4*>(votes + lane_id()) = cast_u32x4(mmaI8_result);
  commit_copies();
  wait_copies_3();
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
