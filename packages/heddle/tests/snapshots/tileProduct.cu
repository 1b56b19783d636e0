typedef unsigned short bf16;  // the upper 16 bits of a float
__device__ inline int index_below(unsigned i, unsigned end) { __builtin_assume(i < end); return i; }
__device__ __forceinline__ void init_barrier(unsigned long long* barrier, unsigned arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\nfence.mbarrier_init.release.cluster;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(arrivals) : "memory"); }
__device__ inline int wrap_add(int a, int b) { return (int)((unsigned int)a + (unsigned int)b); }
__device__ __forceinline__ void wait_barrier(unsigned long long* barrier, unsigned phase) { asm volatile("{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(phase & 1) : "memory"); }
__device__ __forceinline__ void arrive_expect(unsigned long long* barrier, unsigned bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(bytes) : "memory"); }
__device__ inline int wrap_mul(int a, int b) { return (int)((unsigned int)a * (unsigned int)b); }
struct alignas(64) TensorMap { unsigned long long words[16]; };
__device__ __forceinline__ void tma_load_2d(void* tile, const TensorMap& map, unsigned long long* barrier, int c0, int c1) { asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" :: "r"((unsigned)__cvta_generic_to_shared(tile)), "l"(&map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c0), "r"(c1) : "memory"); }
__device__ inline int wrap_sub(int a, int b) { return (int)((unsigned int)a - (unsigned int)b); }
__device__ __forceinline__ void clear_sums() { asm volatile("mov.b32 sums_0, 0; mov.b32 sums_1, 0; mov.b32 sums_2, 0; mov.b32 sums_3, 0; mov.b32 sums_4, 0; mov.b32 sums_5, 0; mov.b32 sums_6, 0; mov.b32 sums_7, 0;"); }
__device__ __forceinline__ void fence_wgmma() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_m64n16k16_bf16_sums(int row, unsigned long long a, unsigned long long b) {
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, 1, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {sums_0, sums_1, sums_2, sums_3, sums_4, sums_5, sums_6, sums_7}, %0, %1, add, 1, 1, 0, 0;\n}"
    : : "l"(a), "l"(b));
}
__device__ inline unsigned long long tile_descriptor(const void* tiles, unsigned place, unsigned long long layout) {
  return layout >> 32 << 32 | ((unsigned)layout | (unsigned)__cvta_generic_to_shared(tiles) >> 4) + place;
}
__device__ __forceinline__ void commit_wgmma() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wait_wgmma_0() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
__device__ __forceinline__ void take_sums(float (&d)[8]) { asm volatile("mov.b32 %0, sums_0; mov.b32 %1, sums_1; mov.b32 %2, sums_2; mov.b32 %3, sums_3; mov.b32 %4, sums_4; mov.b32 %5, sums_5; mov.b32 %6, sums_6; mov.b32 %7, sums_7;" : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]), "=f"(d[7])); }
__device__ __forceinline__ void arrive(unsigned long long* barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory"); }

extern "C" __global__ void tileProduct(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* c) {
  alignas(1024) extern __shared__ unsigned char placed_shared[];
  unsigned char* const as = placed_shared + 0;
  unsigned char* const bs = placed_shared + 16384;
  auto* const full = reinterpret_cast<unsigned long long*>(placed_shared + 20480);
  auto* const empty = reinterpret_cast<unsigned long long*>(placed_shared + 20496);
  alignas(16) float sums[8];
  asm volatile(".reg .f32 sums_<8>;");
  // const row = blockIdx.x * 64;
  const int row = index_below(blockIdx.x, 0x7fffffff) * 64;
  // if (threadIdx.x === 0) {
  if (index_below(threadIdx.x, 1024) == 0) {
    // for (let s = 0; s < STAGES; s++) {
    #pragma unroll
    for (int s = 0; s < 2; s++) {
      // initBarrier(full, s, fault === 'arrivals' ? 2 : 1);
      init_barrier(full + s, 1);
      // initBarrier(empty, s, 128);
      init_barrier(empty + s, 128);
    }
  }
  // if (fault !== 'init') barrier();
  __syncthreads();
  // if (threadIdx.x < 128) {
  if (index_below(threadIdx.x, 1024) < 128) {
    // if (threadIdx.x === 0) {
    if (index_below(threadIdx.x, 1024) == 0) {
      // for (let k = 0; k < idiv(K, depth); k++) {
      #pragma unroll
      for (int k = 0; k < 2; k++) {
        // const stage = k % STAGES;
        const int stage = k % 2;
        // if (fault !== 'reuse') waitBarrier(empty, stage, idiv(k, STAGES) + 1);
        wait_barrier(empty + stage, wrap_add(k / 2, 1));
        // arriveExpect(
        arrive_expect(full + stage, 10240);
        // else tmaLoad(as, stage, 0, 0, 0, a, row, k * depth, full, stage);
        tma_load_2d(as + ((((stage) * 1 + 0) * 64 + 0) * 64 + 0) * 2, a, full + stage, wrap_mul(k, 64), row);
        // else tmaLoad(bs, stage, 0, 0, 0, b, 0, k * depth, full, stage);
        tma_load_2d(bs + ((((stage) * 1 + 0) * 16 + 0) * 64 + 0) * 2, b, full + stage, wrap_mul(k, 64), 0);
      }
    }
  } else {
    // const thread = threadIdx.x - 128;
    const int thread = wrap_sub(index_below(threadIdx.x, 1024), 128);
    // if (cleared) clearSums(sums);
    clear_sums();
    // if (fault !== 'sums-fence') fenceWgmma(sums);
    fence_wgmma();
    // for (let k = 0; k < idiv(K, depth); k++) {
    #pragma unroll
    for (int k = 0; k < 2; k++) {
      // const stage = k % STAGES;
      const int stage = k % 2;
      // if (fault !== 'wait') waitBarrier(full, stage, idiv(k, STAGES));
      wait_barrier(full + stage, k / 2);
      // for (let d = 0; d < depth; d += step) {
      #pragma unroll
      for (int d = 0; d < 64; d += 16) {
        // else wgmma(sums, as, stage, 0, 0, d, bs, stage, 0, 0, d);
        wgmma_m64n16k16_bf16_sums(0, tile_descriptor(as, (((stage) * 1 + 0) * 64 + 0) * 8 + ((d) * 2 >> 4), 0x4000004000010000ull), tile_descriptor(bs, (((stage) * 1 + 0) * 16 + 0) * 8 + ((d) * 2 >> 4), 0x4000004000010000ull));
      }
      // commitWgmma();
      commit_wgmma();
      // if (fault !== 'finish') waitWgmma(sums, 0);
      wait_wgmma_0(), take_sums(sums);
      // if (fault !== 'early') arrive(empty, stage);
      arrive(empty + stage);
    }
    // for (let i = 0; i < idiv(N, 2); i++) {
    #pragma unroll
    for (int i = 0; i < 8; i++) {
      // const r = row + 16 * idiv(thread, 32) + idiv(thread % 32, 4) + 8 * (idiv(i, 2) % 2);
      const int r = row + 16 * (thread / 32) + thread % 32 / 4 + 8 * (i / 2 % 2);
      // const column = 8 * idiv(i, 4) + 2 * (thread % 4) + (i % 2);
      const int column = 8 * (i / 4) + 2 * (thread % 4) + i % 2;
      // if (r < M) c[r * N + column] = sums[i];
      if (r < 64) {
        c[r * 16 + column] = sums[i];
      }
    }
  }
}
