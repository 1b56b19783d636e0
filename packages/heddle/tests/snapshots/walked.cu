__device__ inline int index_below(unsigned i, unsigned end) { __builtin_assume(i < end); return i; }
__device__ __forceinline__ void init_barrier(unsigned long long* barrier, unsigned arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\nfence.mbarrier_init.release.cluster;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(arrivals) : "memory"); }
__device__ __forceinline__ void arrive_expect(unsigned long long* barrier, unsigned bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(bytes) : "memory"); }
struct alignas(64) TensorMap { unsigned long long words[16]; };
__device__ __forceinline__ void tma_load_4d_pixels(void* tile, const TensorMap& map, unsigned long long* barrier, int c0, int c1, int c2, int c3, int o0, int o1) { asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" :: "r"((unsigned)__cvta_generic_to_shared(tile)), "l"(&map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "h"((unsigned short)o0), "h"((unsigned short)o1) : "memory"); }
__device__ __forceinline__ void wait_barrier(unsigned long long* barrier, unsigned phase) { asm volatile("{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(phase & 1) : "memory"); }
__device__ inline unsigned char* swizzled_32(unsigned char* tile, int row, int byte) { return tile + row * 32 + (byte ^ (row >> 2 & 1) << 4); }

extern "C" __global__ void walked(const __grid_constant__ TensorMap x, float* y) {
  alignas(1024) extern __shared__ unsigned char placed_shared[];
  unsigned char* const tile = placed_shared + 0;
  auto* const full = reinterpret_cast<unsigned long long*>(placed_shared + 2048);
  // if (threadIdx.x === 0) initBarrier(full, 0, 1);
  if (index_below(threadIdx.x, 1024) == 0) {
    init_barrier(full + 0, 1);
  }
  // barrier();
  __syncthreads();
  // if (threadIdx.x === 0) {
  if (index_below(threadIdx.x, 1024) == 0) {
    // arriveExpect(full, 0, 64 * 8 * 4);
    arrive_expect(full + 0, 2048);
    // if (dimensions === 2) tmaLoad(tile, 0, 0, x, image, at[0]!, at[1]!, 4, off[0]!, off[1]!, full, 0);
    tma_load_4d_pixels(tile + ((0) * 8 + 0) * 4, x, full + 0, 4, -1, -1, 0, 2, 2);
  }
  // waitBarrier(full, 0, 0);
  wait_barrier(full + 0, 0);
  // for (let i = threadIdx.x; i < 64 * 8; i += 128) y[i] = tile[idiv(i, 8)][i % 8];
  for (int i = index_below(threadIdx.x, 1024); i < 512; i += 128) {
    y[i] = *reinterpret_cast<float*>(swizzled_32(tile, i / 8, (i % 8) * 4));
  }
}
