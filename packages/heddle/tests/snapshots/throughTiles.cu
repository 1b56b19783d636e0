__device__ inline int index_below(unsigned i, unsigned end) { __builtin_assume(i < end); return i; }
__device__ inline int wrap_mul(int a, int b) { return (int)((unsigned int)a * (unsigned int)b); }
__device__ __forceinline__ void init_barrier(unsigned long long* barrier, unsigned arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\nfence.mbarrier_init.release.cluster;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(arrivals) : "memory"); }
__device__ __forceinline__ void lower_registers_64() { asm volatile("setmaxnreg.dec.sync.aligned.u32 64;" ::: "memory"); }
__device__ __forceinline__ void arrive_expect(unsigned long long* barrier, unsigned bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(bytes) : "memory"); }
struct alignas(64) TensorMap { unsigned long long words[16]; };
__device__ __forceinline__ void tma_load_2d(void* tile, const TensorMap& map, unsigned long long* barrier, int c0, int c1) { asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" :: "r"((unsigned)__cvta_generic_to_shared(tile)), "l"(&map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c0), "r"(c1) : "memory"); }
__device__ __forceinline__ void wait_barrier(unsigned long long* barrier, unsigned phase) { asm volatile("{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(phase & 1) : "memory"); }
struct alignas(16) f32x4 { float x, y, z, w; };
__device__ inline unsigned char* swizzled_128(unsigned char* tile, int row, int byte) { return tile + row * 128 + (byte ^ (row & 7) << 4); }
__device__ inline f32x4 operator+(f32x4 a, f32x4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void group_barrier(unsigned id, unsigned threads) { asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(threads) : "memory"); }
__device__ __forceinline__ void tma_store_2d(void* tile, const TensorMap& map, int c0, int c1) { asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%1, {%2, %3}], [%0];" :: "r"((unsigned)__cvta_generic_to_shared(tile)), "l"(&map), "r"(c0), "r"(c1) : "memory"); }
__device__ __forceinline__ void tma_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ __forceinline__ void tma_wait_0() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

extern "C" __global__ void throughTiles(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap y) {
  alignas(1024) extern __shared__ unsigned char placed_shared[];
  unsigned char* const from = placed_shared + 0;
  unsigned char* const to = placed_shared + 8192;
  auto* const full = reinterpret_cast<unsigned long long*>(placed_shared + 16384);
  // const row = blockIdx.y * 64;
  const int row = wrap_mul(index_below(blockIdx.y, 65535), 64);
  // const column = blockIdx.x * 32;
  const int column = wrap_mul(index_below(blockIdx.x, 0x7fffffff), 32);
  // if (threadIdx.x === 0) initBarrier(full, 0, 1);
  if (index_below(threadIdx.x, 1024) == 0) {
    init_barrier(full + 0, 1);
  }
  // barrier();
  __syncthreads();
  // lowerRegisters(64);
  lower_registers_64();
  // if (threadIdx.x === 0) {
  if (index_below(threadIdx.x, 1024) == 0) {
    // arriveExpect(full, 0, 64 * 32 * 4);
    arrive_expect(full + 0, 8192);
    // tmaLoad(from, 0, 0, x, row, column, full, 0);
    tma_load_2d(from + ((0) * 32 + 0) * 4, x, full + 0, column, row);
  }
  // waitBarrier(full, 0, 0);
  wait_barrier(full + 0, 0);
  // for (let i = threadIdx.x; i < 512; i += 128) {
  for (int i = index_below(threadIdx.x, 1024); i < 512; i += 128) {
    // const r = idiv(i, 8);
    const int r = i / 8;
    // const c = 4 * (i % 8);
    const int c = 4 * (i % 8);
    // const v = load4(from, r, c);
    const f32x4 v = *reinterpret_cast<f32x4*>(swizzled_128(from, r, (c) * 4));
    // store4(to, r, c, v + v);
    *reinterpret_cast<f32x4*>(swizzled_128(to, r, (c) * 4)) = v + v;
  }
  // if (fault !== 'fence') fenceAsync();
  fence_async();
  // if (fault !== 'barrier') groupBarrier(2, 128);
  group_barrier(2, 128);
  // if (threadIdx.x === 0) {
  if (index_below(threadIdx.x, 1024) == 0) {
    // tmaStore(y, row, column, to, 0, 0);
    tma_store_2d(to + ((0) * 32 + 0) * 4, y, column, row);
    // tmaCommit();
    tma_commit();
    // if (fault !== 'unfinished') tmaWait(0);
    tma_wait_0();
  }
}
