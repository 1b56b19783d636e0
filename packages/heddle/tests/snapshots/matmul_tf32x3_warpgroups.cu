struct alignas(16) f32x4 { float x, y, z, w; };
struct alignas(8) f32x2 { float x, y; };
__device__ inline int index_below(unsigned i, unsigned end) { __builtin_assume(i < end); return i; }
__device__ __forceinline__ void init_barrier(unsigned long long* barrier, unsigned arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\nfence.mbarrier_init.release.cluster;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(arrivals) : "memory"); }
__device__ __forceinline__ void lower_registers_56() { asm volatile("setmaxnreg.dec.sync.aligned.u32 56;" ::: "memory"); }
__device__ inline int wrap_mul(int a, int b) { return (int)((unsigned int)a * (unsigned int)b); }
__device__ inline int wrap_sub(int a, int b) { return (int)((unsigned int)a - (unsigned int)b); }
__device__ inline int mod(int a, int b) { return b == 0 || b == -1 ? 0 : a % b; }
__device__ inline int wrap_add(int a, int b) { return (int)((unsigned int)a + (unsigned int)b); }
__device__ inline int wrap_neg(int a) { return (int)(0 - (unsigned int)a); }
__device__ inline int idiv(int a, int b) { return b == 0 ? 0 : b == -1 ? wrap_neg(a) : a / b; }
__device__ __forceinline__ void wait_barrier(unsigned long long* barrier, unsigned phase) { asm volatile("{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(phase & 1) : "memory"); }
__device__ __forceinline__ void arrive_expect(unsigned long long* barrier, unsigned bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(bytes) : "memory"); }
struct alignas(64) TensorMap { unsigned long long words[16]; };
__device__ __forceinline__ void tma_load_3d(void* tile, const TensorMap& map, unsigned long long* barrier, int c0, int c1, int c2) { asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" :: "r"((unsigned)__cvta_generic_to_shared(tile)), "l"(&map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c0), "r"(c1), "r"(c2) : "memory"); }
__device__ inline int lane_id() { unsigned id; asm("mov.u32 %0, %%laneid;" : "=r"(id)); __builtin_assume(id < 32); return id; }
__device__ inline unsigned char* swizzled_128(unsigned char* tile, int row, int byte) { return tile + row * 128 + (byte ^ (row & 7) << 4); }
__device__ inline int warp_id() { return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32u; }
__device__ __forceinline__ void group_barrier(unsigned id, unsigned threads) { asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(threads) : "memory"); }
__device__ inline float round_tf32(float f) { 
#if __CUDA_ARCH__ >= 900
  unsigned bits;
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(bits) : "f"(f));
  return __uint_as_float(bits);
#else
  const unsigned bits = __float_as_uint(f);
  return f == f ? __uint_as_float((bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu) : f;
#endif
 }
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void arrive(unsigned long long* barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory"); }
__device__ __forceinline__ void raise_registers_224() { asm volatile("setmaxnreg.inc.sync.aligned.u32 224;" ::: "memory"); }
struct alignas(16) u32x4 { unsigned x, y, z, w; };
__device__ inline u32x4 load_matrix_4(const void* row) {
  u32x4 r;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
    : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
  return r;
}
__device__ __forceinline__ void fence_wgmma() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void hold_sums_32(float (&d)[32]) {
#pragma unroll
  for (int i = 0; i < 32; i++) asm volatile("" : "+f"(d[i]) :: "memory");
}
__device__ __forceinline__ void hold_words_16(unsigned (&d)[16]) {
#pragma unroll
  for (int i = 0; i < 16; i++) asm volatile("" : "+r"(d[i]) :: "memory");
}
__device__ __forceinline__ void wgmma_m64n64k8_tf32_held_fresh(float (&d)[32], unsigned (&a)[4], unsigned long long b) {
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, 0, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, add, 1, 1;\n}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline unsigned long long tile_descriptor(const void* tiles, unsigned place, unsigned long long layout) {
  return layout >> 32 << 32 | ((unsigned)layout | (unsigned)__cvta_generic_to_shared(tiles) >> 4) + place;
}
__device__ __forceinline__ void wgmma_m64n64k8_tf32_held(float (&d)[32], unsigned (&a)[4], unsigned long long b) {
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, 1, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, add, 1, 1;\n}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ __forceinline__ void commit_wgmma() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wait_wgmma_0() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
__device__ __forceinline__ void tma_wait_1() { asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory"); }
__device__ __forceinline__ void tma_store_3d(void* tile, const TensorMap& map, int c0, int c1, int c2) { asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%1, {%2, %3, %4}], [%0];" :: "r"((unsigned)__cvta_generic_to_shared(tile)), "l"(&map), "r"(c0), "r"(c1), "r"(c2) : "memory"); }
__device__ __forceinline__ void tma_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ __forceinline__ void tma_wait_0() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

extern "C" __global__ void matmul_tf32x3_warpgroups(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const __grid_constant__ TensorMap c, const float* x, const float* y) {
  alignas(1024) extern __shared__ unsigned char placed_shared[];
  unsigned char* const as = placed_shared + 0;
  unsigned char* const bs = placed_shared + 65536;
  unsigned char* const lows = placed_shared + 98304;
  auto* const full = reinterpret_cast<unsigned long long*>(placed_shared + 163840);
  auto* const empty = reinterpret_cast<unsigned long long*>(placed_shared + 163872);
  auto* const turned = reinterpret_cast<unsigned long long*>(placed_shared + 163904);
  auto* const order = reinterpret_cast<unsigned long long*>(placed_shared + 163936);
  unsigned char* const cs = placed_shared + 131072;
  alignas(16) f32x4 held[4];
  alignas(16) float sums[1][32];
  alignas(16) float own[1][32];
  alignas(16) unsigned own_1[4][4];
  alignas(16) unsigned own_2[4][4];
  alignas(16) float zeros[4];
  alignas(16) float u[1][2];
  alignas(16) f32x2 picked[8];
  alignas(16) f32x2 values[8];
  alignas(16) f32x2 totals[1];
  alignas(16) f32x2 biases[4];
  // if (threadIdx.x === 0) initBarriers(ring, beside, context);
  if (index_below(threadIdx.x, 1024) == 0) {
    // for (let s = 0; s < stages; s++) {
    #pragma unroll
    for (int s = 0; s < 4; s++) {
      // initBarrier(full, s, 1);
      init_barrier(full + s, 1);
      // initBarrier(empty, s, together * 4);
      init_barrier(empty + s, 8);
      // if (b.turned || split) initBarrier(turned, s, turners);
      init_barrier(turned + s, 3);
    }
    // if (together < groups || (split && groups > 1)) for (let g = 0; g < groups; g++) initBarrier(order, g, 4);
    #pragma unroll
    for (int g = 0; g < 2; g++) {
      init_barrier(order + g, 4);
    }
  }
  // barrier();
  __syncthreads();
  // const group = idiv(threadIdx.x, THREADS);
  const int group = index_below(threadIdx.x, 1024) / 128;
  // let stage = 0;
  int stage = 0;
  // let phase = 0;
  int phase = 0;
  // let taken = 0;
  int taken = 0;
  // let done = 0;
  int done = 0;
  // if (group === groups) {
  if (group == 2) {
    // lowerRegisters(REGISTERS.producer);
    lower_registers_56();
    // if (threadIdx.x === groups * THREADS) copyStages(a, b, ring, context);
    if (index_below(threadIdx.x, 1024) == 256) {
      // let count = 0;
      int count = 0;
      // let stage = 0;
      int stage_1 = 0;
      // let phase = 0;
      int phase_1 = 0;
      // for (let number = blockIdx.x; number < total; number += gridDim.x) {
      for (int number = index_below(blockIdx.x, 0x7fffffff); number < 32; number += index_below(gridDim.x, 0x80000000)) {
        // const split = idiv(number, down * across * sizes.batches);
        const int split = number / 32;
        // const matrix = idiv(number, down * breadth) % idiv(sizes.batches, abreast);
        const int matrix = number / 32 % 1;
        // const inMatrix = number % (down * breadth);
        const int inMatrix = number % 32;
        // const first = idiv(inMatrix, band * breadth) * band;
        const int first = wrap_mul(inMatrix / 32, 4);
        // const height = Math.min(band, down - first);
        const int height = min(4, wrap_sub(4, first));
        // const inBand = inMatrix - first * breadth;
        const int inBand = wrap_sub(inMatrix, wrap_mul(first, 8));
        // const row = (first + (inBand % height)) * rows;
        const int row = wrap_mul(wrap_add(first, mod(inBand, height)), 128);
        // const tile = idiv(inBand, height);
        const int tile = idiv(inBand, height);
        // const batch = matrix * abreast + (abreast > 1 ? idiv(tile, across) : 0);
        const int batch = wrap_add(wrap_mul(matrix, 1), 0);
        // const column = (abreast > 1 ? tile % across : tile) * columns;
        const int column = wrap_mul(tile, 64);
        // const from = split * share;
        const int from = wrap_mul(split, 16);
        // let length = i32(lengths[0]!);
        int length = 16;
        const int end = min(wrap_add(from, 16), length);
        // for (let chunk = at.from; chunk < at.end; chunk++) {
        for (int chunk = from; chunk < end; chunk++) {
          // body(stage, phase, chunk, at);
          const int stage_2 = stage_1;
          const int phase_2 = phase_1;
          // waitBarrier(ring.empty, stage, phase + 1);
          wait_barrier(empty + stage_2, wrap_add(phase_2, 1));
          // else arriveExpect(full, stage, (ofA + ofB) * 128);
          arrive_expect(full + stage_2, 24576);
          // for (let i = 0; i < boxes; i++) {
          #pragma unroll
          for (int i = 0; i < 1; i++) {
            // const panel = i * apart[0];
            const int panel = wrap_mul(i, 1);
            // const row = i * apart[1];
            const int row_1 = wrap_mul(i, 0);
            // const y = alongK ? along : k;
            const int y_1 = row;
            // const x = alongK ? k : along + i * work.depth;
            const int x_1 = wrap_mul(chunk, 32);
            // else tmaLoad(to, stage, panel, row, 0, from, of, y, x, full, stage);
            tma_load_3d(as + ((((stage_2) * 1 + panel) * 128 + row_1) * 32 + 0) * 4, a, full + stage_2, x_1, y_1, 0);
          }
          // for (let i = 0; i < boxes; i++) {
          #pragma unroll
          for (int i = 0; i < 2; i++) {
            // const panel = i * apart[0];
            const int panel = wrap_mul(i, 0);
            // const row = i * apart[1];
            const int row_1 = wrap_mul(i, 32);
            // const y = alongK ? along : k;
            const int y_1 = wrap_mul(chunk, 32);
            // const x = alongK ? k : along + i * work.depth;
            const int x_1 = wrap_add(column, wrap_mul(i, 32));
            // else tmaLoad(to, stage, panel, row, 0, from, of, y, x, full, stage);
            tma_load_3d(bs + ((((stage_2) * 1 + panel) * 64 + row_1) * 32 + 0) * 4, b, full + stage_2, x_1, y_1, 0);
          }
          // phase += idiv(stage + 1, stages);
          phase_1 = wrap_add(phase_1, wrap_add(stage_1, 1) / 4);
          // stage = (stage + 1) % stages;
          stage_1 = wrap_add(stage_1, 1) % 4;
        }
      }
    }
    // const warp = idiv(threadIdx.x - groups * THREADS, 32) - (4 - turners);
    const int warp = wrap_sub(wrap_sub(index_below(threadIdx.x, 1024), 256) / 32, 1);
    // if ((b.turned || split) && warp >= 0)
    if (warp >= 0) {
      // let stage = 0;
      int stage_1 = 0;
      // let phase = 0;
      int phase_1 = 0;
      // for (let number = blockIdx.x; number < total; number += gridDim.x) {
      for (int number = index_below(blockIdx.x, 0x7fffffff); number < 32; number += index_below(gridDim.x, 0x80000000)) {
        // const split = idiv(number, down * across * sizes.batches);
        const int split = number / 32;
        // const matrix = idiv(number, down * breadth) % idiv(sizes.batches, abreast);
        const int matrix = number / 32 % 1;
        // const inMatrix = number % (down * breadth);
        const int inMatrix = number % 32;
        // const first = idiv(inMatrix, band * breadth) * band;
        const int first = wrap_mul(inMatrix / 32, 4);
        // const height = Math.min(band, down - first);
        const int height = min(4, wrap_sub(4, first));
        // const inBand = inMatrix - first * breadth;
        const int inBand = wrap_sub(inMatrix, wrap_mul(first, 8));
        // const row = (first + (inBand % height)) * rows;
        const int row = wrap_mul(wrap_add(first, mod(inBand, height)), 128);
        // const tile = idiv(inBand, height);
        const int tile = idiv(inBand, height);
        // const batch = matrix * abreast + (abreast > 1 ? idiv(tile, across) : 0);
        const int batch = wrap_add(wrap_mul(matrix, 1), 0);
        // const column = (abreast > 1 ? tile % across : tile) * columns;
        const int column = wrap_mul(tile, 64);
        // const from = split * share;
        const int from = wrap_mul(split, 16);
        // let length = i32(lengths[0]!);
        int length = 16;
        const int end = min(wrap_add(from, 16), length);
        // for (let chunk = at.from; chunk < at.end; chunk++) {
        for (int chunk = from; chunk < end; chunk++) {
          // body(stage, phase, chunk, at);
          const int stage_2 = stage_1;
          const int phase_2 = phase_1;
          // waitBarrier(full, stage, phase);
          wait_barrier(full + stage_2, phase_2);
          // const down = laneId % 8;
          const int down = lane_id() % 8;
          // for (let first = warp; first < halves; first += halvesAtOnce * turners) {
          for (int first_1 = warp; first_1 < 4; first_1 += 3) {
            // for (let n = 0; n < halvesAtOnce; n++) {
            #pragma unroll
            for (int n = 0; n < 1; n++) {
              // const half = first + n * turners;
              const int half = wrap_add(first_1, wrap_mul(n, 3));
              // const across = down ^ (idiv(laneId, 8) + 4 * (half % 2));
              const int across = down ^ wrap_add(lane_id() / 8, wrap_mul(4, half % 2));
              // for (let i = 0; i < 4; i++)
              #pragma unroll
              for (int i = 0; i < 4; i++) {
                // held[4 * n + i] = load4(bs, stage, 0, 32 * idiv(half, 2) + 4 * down + i, 4 * across);
                held[4 * n + i] = *reinterpret_cast<f32x4*>(swizzled_128(bs, ((stage_2) * 1 + 0) * 64 + 32 * (half / 2) + 4 * down + i, (4 * across) * 4));
              }
            }
            // groupBarrier(WARPS + warpId, 32);
            group_barrier(wrap_add(3, warp_id()), 32);
            // for (let n = 0; n < halvesAtOnce; n++) {
            #pragma unroll
            for (int n = 0; n < 1; n++) {
              // const half = first + n * turners;
              const int half = wrap_add(first_1, wrap_mul(n, 3));
              // const across = down ^ (idiv(laneId, 8) + 4 * (half % 2));
              const int across = down ^ wrap_add(lane_id() / 8, wrap_mul(4, half % 2));
              // const v = held[4 * n]!;
              const f32x4 v = held[4 * n];
              // const w = held[4 * n + 1]!;
              const f32x4 w = held[4 * n + 1];
              // const x = held[4 * n + 2]!;
              const f32x4 x_1 = held[4 * n + 2];
              // const y = held[4 * n + 3]!;
              const f32x4 y_1 = held[4 * n + 3];
              // const turned = vec4(lane(v, i), lane(w, i), lane(x, i), lane(y, i));
              const f32x4 turned_1 = f32x4{v.x, w.x, x_1.x, y_1.x};
              // keep(32 * idiv(half, 2) + 4 * across + i, 4 * down, turned);
              const int column_1 = 32 * (half / 2) + 4 * across + 0;
              const int k = 4 * down;
              // store4(bs, stage, 0, column, k, v);
              *reinterpret_cast<f32x4*>(swizzled_128(bs, ((stage_2) * 1 + 0) * 64 + column_1, (k) * 4)) = turned_1;
              // const low = (n: number) => tf32(lane(v, n) - cut(lane(v, n), context));
              const float v_1 = turned_1.x;
              const float v_2 = turned_1.y;
              const float v_3 = turned_1.z;
              const float v_4 = turned_1.w;
              // store4(lows, stage, 0, column, k, lowOf(v, context));
              *reinterpret_cast<f32x4*>(swizzled_128(lows, ((stage_2) * 1 + 0) * 64 + column_1, (k) * 4)) = f32x4{round_tf32(turned_1.x - __uint_as_float(__float_as_uint(v_1) & 4294959104u)), round_tf32(turned_1.y - __uint_as_float(__float_as_uint(v_2) & 4294959104u)), round_tf32(turned_1.z - __uint_as_float(__float_as_uint(v_3) & 4294959104u)), round_tf32(turned_1.w - __uint_as_float(__float_as_uint(v_4) & 4294959104u))};
              // const turned = vec4(lane(v, i), lane(w, i), lane(x, i), lane(y, i));
              const f32x4 turned_2 = f32x4{v.y, w.y, x_1.y, y_1.y};
              // keep(32 * idiv(half, 2) + 4 * across + i, 4 * down, turned);
              const int column_2 = 32 * (half / 2) + 4 * across + 1;
              const int k_1 = 4 * down;
              // store4(bs, stage, 0, column, k, v);
              *reinterpret_cast<f32x4*>(swizzled_128(bs, ((stage_2) * 1 + 0) * 64 + column_2, (k_1) * 4)) = turned_2;
              // const low = (n: number) => tf32(lane(v, n) - cut(lane(v, n), context));
              const float v_5 = turned_2.x;
              const float v_6 = turned_2.y;
              const float v_7 = turned_2.z;
              const float v_8 = turned_2.w;
              // store4(lows, stage, 0, column, k, lowOf(v, context));
              *reinterpret_cast<f32x4*>(swizzled_128(lows, ((stage_2) * 1 + 0) * 64 + column_2, (k_1) * 4)) = f32x4{round_tf32(turned_2.x - __uint_as_float(__float_as_uint(v_5) & 4294959104u)), round_tf32(turned_2.y - __uint_as_float(__float_as_uint(v_6) & 4294959104u)), round_tf32(turned_2.z - __uint_as_float(__float_as_uint(v_7) & 4294959104u)), round_tf32(turned_2.w - __uint_as_float(__float_as_uint(v_8) & 4294959104u))};
              // const turned = vec4(lane(v, i), lane(w, i), lane(x, i), lane(y, i));
              const f32x4 turned_3 = f32x4{v.z, w.z, x_1.z, y_1.z};
              // keep(32 * idiv(half, 2) + 4 * across + i, 4 * down, turned);
              const int column_3 = 32 * (half / 2) + 4 * across + 2;
              const int k_2 = 4 * down;
              // store4(bs, stage, 0, column, k, v);
              *reinterpret_cast<f32x4*>(swizzled_128(bs, ((stage_2) * 1 + 0) * 64 + column_3, (k_2) * 4)) = turned_3;
              // const low = (n: number) => tf32(lane(v, n) - cut(lane(v, n), context));
              const float v_9 = turned_3.x;
              const float v_10 = turned_3.y;
              const float v_11 = turned_3.z;
              const float v_12 = turned_3.w;
              // store4(lows, stage, 0, column, k, lowOf(v, context));
              *reinterpret_cast<f32x4*>(swizzled_128(lows, ((stage_2) * 1 + 0) * 64 + column_3, (k_2) * 4)) = f32x4{round_tf32(turned_3.x - __uint_as_float(__float_as_uint(v_9) & 4294959104u)), round_tf32(turned_3.y - __uint_as_float(__float_as_uint(v_10) & 4294959104u)), round_tf32(turned_3.z - __uint_as_float(__float_as_uint(v_11) & 4294959104u)), round_tf32(turned_3.w - __uint_as_float(__float_as_uint(v_12) & 4294959104u))};
              // const turned = vec4(lane(v, i), lane(w, i), lane(x, i), lane(y, i));
              const f32x4 turned_4 = f32x4{v.w, w.w, x_1.w, y_1.w};
              // keep(32 * idiv(half, 2) + 4 * across + i, 4 * down, turned);
              const int column_4 = 32 * (half / 2) + 4 * across + 3;
              const int k_3 = 4 * down;
              // store4(bs, stage, 0, column, k, v);
              *reinterpret_cast<f32x4*>(swizzled_128(bs, ((stage_2) * 1 + 0) * 64 + column_4, (k_3) * 4)) = turned_4;
              // const low = (n: number) => tf32(lane(v, n) - cut(lane(v, n), context));
              const float v_13 = turned_4.x;
              const float v_14 = turned_4.y;
              const float v_15 = turned_4.z;
              const float v_16 = turned_4.w;
              // store4(lows, stage, 0, column, k, lowOf(v, context));
              *reinterpret_cast<f32x4*>(swizzled_128(lows, ((stage_2) * 1 + 0) * 64 + column_4, (k_3) * 4)) = f32x4{round_tf32(turned_4.x - __uint_as_float(__float_as_uint(v_13) & 4294959104u)), round_tf32(turned_4.y - __uint_as_float(__float_as_uint(v_14) & 4294959104u)), round_tf32(turned_4.z - __uint_as_float(__float_as_uint(v_15) & 4294959104u)), round_tf32(turned_4.w - __uint_as_float(__float_as_uint(v_16) & 4294959104u))};
            }
          }
          // fenceAsync();
          fence_async();
          // groupBarrier(WARPS + warpId, 32);
          group_barrier(wrap_add(3, warp_id()), 32);
          // if (threadIdx.x % 32 === 0) arrive(turned, stage);
          if (index_below(threadIdx.x, 1024) % 32 == 0) {
            arrive(turned + stage_2);
          }
          // phase += idiv(stage + 1, stages);
          phase_1 = wrap_add(phase_1, wrap_add(stage_1, 1) / 4);
          // stage = (stage + 1) % stages;
          stage_1 = wrap_add(stage_1, 1) % 4;
        }
      }
    }
  } else {
    // if (groups === 2) raiseRegisters(REGISTERS.consumer);
    raise_registers_224();
    // const isFirstLane = threadIdx.x % 32 === 0;
    const bool isFirstLane = index_below(threadIdx.x, 1024) % 32 == 0;
    // let number = 0;
    int number = 0;
    // for (let number = blockIdx.x; number < total; number += gridDim.x) {
    for (int number_1 = index_below(blockIdx.x, 0x7fffffff); number_1 < 32; number_1 += index_below(gridDim.x, 0x80000000)) {
      // const split = idiv(number, down * across * sizes.batches);
      const int split = number_1 / 32;
      // const matrix = idiv(number, down * breadth) % idiv(sizes.batches, abreast);
      const int matrix = number_1 / 32 % 1;
      // const inMatrix = number % (down * breadth);
      const int inMatrix = number_1 % 32;
      // const first = idiv(inMatrix, band * breadth) * band;
      const int first = wrap_mul(inMatrix / 32, 4);
      // const height = Math.min(band, down - first);
      const int height = min(4, wrap_sub(4, first));
      // const inBand = inMatrix - first * breadth;
      const int inBand = wrap_sub(inMatrix, wrap_mul(first, 8));
      // const row = (first + (inBand % height)) * rows;
      const int row = wrap_mul(wrap_add(first, mod(inBand, height)), 128);
      // const tile = idiv(inBand, height);
      const int tile = idiv(inBand, height);
      // const batch = matrix * abreast + (abreast > 1 ? idiv(tile, across) : 0);
      const int batch = wrap_add(wrap_mul(matrix, 1), 0);
      // const column = (abreast > 1 ? tile % across : tile) * columns;
      const int column = wrap_mul(tile, 64);
      // const from = split * share;
      const int from = wrap_mul(split, 16);
      // let length = i32(lengths[0]!);
      int length = 16;
      const int end = min(wrap_add(from, 16), length);
      // for (let n = 0; n < each * views.count; n++)
      #pragma unroll
      for (int n = 0; n < 1; n++) {
        // for (let i = 0; i < idiv(viewColumns, 2); i++) sums[n][i] = 0;
        #pragma unroll
        for (int i = 0; i < 32; i++) {
          sums[n][i] = 0.0f;
        }
      }
      // for (let chunk = at.from; chunk < at.end; chunk++) {
      for (int chunk = from; chunk < end; chunk++) {
        // multiplySplit(sums, own, ring, stage, phase, group, context);
        const int stage_1 = stage;
        const int phase_1 = phase;
        // const before = (phase * stages + stage) * each * batches;
        const int before = wrap_mul(wrap_mul(wrap_add(wrap_mul(phase_1, 4), stage_1), 1), 1);
        // const isFirstLane = threadIdx.x % 32 === 0;
        const bool isFirstLane_1 = index_below(threadIdx.x, 1024) % 32 == 0;
        // waitBarrier(full, stage, phase);
        wait_barrier(full + stage_1, phase_1);
        // for (let e = 0; e < each; e++) {
        #pragma unroll
        for (int e = 0; e < 1; e++) {
          // for (let n = 0; n < batches; n++) {
          #pragma unroll
          for (int n = 0; n < 1; n++) {
            // const steps = Math.min(level, filled - n * level);
            const int steps = min(32, wrap_sub(32, wrap_mul(n, 32)));
            // readParts(own, as, stage, (group * each + e) * ROWS, n * level, steps, context);
            const int part = (group * 1 + e) * 64;
            const int k = n * 32;
            // const thread = threadIdx.x % THREADS;
            const int thread = index_below(threadIdx.x, 1024) % 128;
            // for (let n = 0; n < idiv(steps, 8); n++) {
            for (int n_1 = 0, n_end = steps / 8; n_1 < n_end; n_1++) {
              // const row = part + 16 * idiv(thread, 32) + (laneId % 8) + 8 * (idiv(laneId, 8) % 2);
              const int row_1 = part + 16 * (thread / 32) + lane_id() % 8 + 8 * (lane_id() / 8 % 2);
              // const v = loadMatrix4(as, stage, 0, row, k + 8 * n + 4 * idiv(laneId, 16));
              const u32x4 v = load_matrix_4(&*reinterpret_cast<float*>(swizzled_128(as, ((stage_1) * 1 + 0) * 128 + row_1, (k + 8 * n_1 + 4 * (lane_id() / 16)) * 4)));
              // for (let word = 0; word < 4; word++) keep(n, word, bitcast(f32, lane(v, word)));
              const float v_1 = __uint_as_float(v.x);
              // const h = tf32(v);
              const float h = round_tf32(v_1);
              // high[n][word] = bitcast(u32, h);
              own_1[n_1][0] = __float_as_uint(h);
              // low[n][word] = bitcast(u32, tf32(v - h));
              own_2[n_1][0] = __float_as_uint(round_tf32(v_1 - h));
              // for (let word = 0; word < 4; word++) keep(n, word, bitcast(f32, lane(v, word)));
              const float v_2 = __uint_as_float(v.y);
              // const h = tf32(v);
              const float h_1 = round_tf32(v_2);
              // high[n][word] = bitcast(u32, h);
              own_1[n_1][1] = __float_as_uint(h_1);
              // low[n][word] = bitcast(u32, tf32(v - h));
              own_2[n_1][1] = __float_as_uint(round_tf32(v_2 - h_1));
              // for (let word = 0; word < 4; word++) keep(n, word, bitcast(f32, lane(v, word)));
              const float v_3 = __uint_as_float(v.z);
              // const h = tf32(v);
              const float h_2 = round_tf32(v_3);
              // high[n][word] = bitcast(u32, h);
              own_1[n_1][2] = __float_as_uint(h_2);
              // low[n][word] = bitcast(u32, tf32(v - h));
              own_2[n_1][2] = __float_as_uint(round_tf32(v_3 - h_2));
              // for (let word = 0; word < 4; word++) keep(n, word, bitcast(f32, lane(v, word)));
              const float v_4 = __uint_as_float(v.w);
              // const h = tf32(v);
              const float h_3 = round_tf32(v_4);
              // high[n][word] = bitcast(u32, h);
              own_1[n_1][3] = __float_as_uint(h_3);
              // low[n][word] = bitcast(u32, tf32(v - h));
              own_2[n_1][3] = __float_as_uint(round_tf32(v_4 - h_3));
            }
            // groupBarrier(WARPS + warpId, 32);
            group_barrier(wrap_add(3, warp_id()), 32);
            // if (e === 0 && n === 0) waitBarrier(turned, stage, phase);
            if (e == 0 && n == 0) {
              wait_barrier(turned + stage_1, phase_1);
            }
            // if (groups === 2) waitBarrier(order, group, before + e * batches + n + group + 1);
            wait_barrier(order + group, wrap_add(wrap_add(wrap_add(wrap_add(before, wrap_mul(e, 1)), n), group), 1));
            // startBatch(own, bs, lows, stage, n * level, steps, yieldTurn, context);
            const int k_1 = wrap_mul(n, 32);
            // fenceWgmma(batch);
            hold_sums_32(reinterpret_cast<float (&)[32]>(own)), fence_wgmma();
            // fenceWgmma(high);
            hold_words_16(reinterpret_cast<unsigned (&)[16]>(own_1)), fence_wgmma();
            // fenceWgmma(low);
            hold_words_16(reinterpret_cast<unsigned (&)[16]>(own_2)), fence_wgmma();
            // for (let n = 0; n < idiv(steps, 8); n++) {
            for (int n_1 = 0, n_end = steps / 8; n_1 < n_end; n_1++) {
              // if (n === 0) wgmma(batch, 0, low, n, bs, stage, 0, 0, k, false, false, true);
              if (n_1 == 0) {
                wgmma_m64n64k8_tf32_held_fresh(own[0], own_2[n_1], tile_descriptor(bs, (((stage_1) * 1 + 0) * 64 + 0) * 8 + ((k_1) * 4 >> 4), 0x4000004000010000ull));
              } else {
                // else wgmma(batch, 0, low, n, bs, stage, 0, 0, k + 8 * n);
                wgmma_m64n64k8_tf32_held(own[0], own_2[n_1], tile_descriptor(bs, (((stage_1) * 1 + 0) * 64 + 0) * 8 + ((wrap_add(k_1, wrap_mul(8, n_1))) * 4 >> 4), 0x4000004000010000ull));
              }
            }
            // for (let n = 0; n < idiv(steps, 8); n++) wgmma(batch, 0, high, n, lows, stage, 0, 0, k + 8 * n);
            for (int n_1 = 0, n_end = steps / 8; n_1 < n_end; n_1++) {
              wgmma_m64n64k8_tf32_held(own[0], own_1[n_1], tile_descriptor(lows, (((stage_1) * 1 + 0) * 64 + 0) * 8 + ((wrap_add(k_1, wrap_mul(8, n_1))) * 4 >> 4), 0x4000004000010000ull));
            }
            // if (groups === 2 && isFirstLane) arrive(order, 1 - group);
            if (isFirstLane_1) {
              arrive(order + wrap_sub(1, group));
            }
            // for (let n = 0; n < idiv(steps, 8); n++) wgmma(batch, 0, high, n, bs, stage, 0, 0, k + 8 * n);
            for (int n_1 = 0, n_end = steps / 8; n_1 < n_end; n_1++) {
              wgmma_m64n64k8_tf32_held(own[0], own_1[n_1], tile_descriptor(bs, (((stage_1) * 1 + 0) * 64 + 0) * 8 + ((wrap_add(k_1, wrap_mul(8, n_1))) * 4 >> 4), 0x4000004000010000ull));
            }
            // commitWgmma();
            commit_wgmma();
            // waitWgmma(own.batch, 0);
            wait_wgmma_0(), hold_sums_32(reinterpret_cast<float (&)[32]>(own));
            // waitWgmma(own.high, 0);
            wait_wgmma_0(), hold_words_16(reinterpret_cast<unsigned (&)[16]>(own_1));
            // waitWgmma(own.low, 0);
            wait_wgmma_0(), hold_words_16(reinterpret_cast<unsigned (&)[16]>(own_2));
            // if (e === each - 1 && n === batches - 1 && isFirstLane) arrive(empty, stage);
            if (e == 0 && n == 0 && isFirstLane_1) {
              arrive(empty + stage_1);
            }
            // for (let i = 0; i < idiv(columns, 2); i++) sums[e][i] = sums[e][i] + own.batch[0][i];
            #pragma unroll
            for (int i = 0; i < 32; i++) {
              sums[e][i] = sums[e][i] + own[0][i];
            }
          }
        }
        // phase += idiv(stage + count, stages);
        phase = wrap_add(phase, wrap_add(stage, 1) / 4);
        // stage = (stage + count) % stages;
        stage = wrap_add(stage, 1) % 4;
      }
      // for (let i = 0; i < 4; i++) zeros[i] = 0;
      #pragma unroll
      for (int i = 0; i < 4; i++) {
        zeros[i] = 0.0f;
      }
      // for (let e = 0; e < each; e++)
      #pragma unroll
      for (int e = 0; e < 1; e++) {
        // for (let i = 0; i < idiv(columns, 2); i++) zeros[i % 4] = fma(sums[e][i], 0, zeros[i % 4]);
        #pragma unroll
        for (int i = 0; i < 32; i++) {
          zeros[i % 4] = fmaf(sums[e][i], 0.0f, zeros[i % 4]);
        }
      }
      // if (!areFinite(sums, context)) sumPlainly(given.x, given.y, sums, group, at, context);
      if (!(zeros[0] + zeros[1] + (zeros[2] + zeros[3]) == 0.0f)) {
        // const thread = threadIdx.x % THREADS;
        const int thread = index_below(threadIdx.x, 1024) % 128;
        // for (let e = 0; e < each; e++) for (let i = 0; i < idiv(columns, 2); i++) sums[e][i] = 0;
        #pragma unroll
        for (int e = 0; e < 1; e++) {
          #pragma unroll
          for (int i = 0; i < 32; i++) {
            sums[e][i] = 0.0f;
          }
        }
        // let k = at.from * depth;
        int k = wrap_mul(from, 32);
        // const end = Math.min(at.end * depth, inner);
        const int end_1 = min(wrap_mul(end, 32), 512);
        // while (k < end) {
        while (k < end_1) {
          // for (let e = 0; e < each; e++)
          #pragma unroll
          for (int e = 0; e < 1; e++) {
            // for (let half = 0; half < 2; half++) {
            #pragma unroll
            for (int half = 0; half < 2; half++) {
              // const warp = idiv(thread, 32);
              const int warp = thread / 32;
              // const g = idiv(thread % 32, 4);
              const int g = thread % 32 / 4;
              // const row = at.row + (group * each + e) * ROWS + rowInTile(thread, half, context);
              const int row_1 = wrap_add(wrap_add(row, wrap_mul(wrap_add(wrap_mul(group, 1), e), 64)), wrap_add(wrap_add(wrap_mul(16, warp), g), wrap_mul(8, half)));
              // u[e][half] = x[left + Math.min(row, sizes.M - 1) * a.along + k * a.inner];
              u[e][half] = x[0 + min(row_1, 511) * 512 + k * 1];
            }
          }
          // for (let i = 0; i < idiv(columns, 4); i++) {
          #pragma unroll
          for (int i = 0; i < 16; i++) {
            // const column = at.column + 8 * idiv(i, 2) + 2 * (thread % 4) + (i % 2);
            const int column_1 = wrap_add(wrap_add(wrap_add(column, wrap_mul(8, i / 2)), wrap_mul(2, thread % 4)), i % 2);
            // const v = y[right + Math.min(column, sizes.N - 1) * b.along + k * b.inner];
            const float v = y[0 + min(column_1, 511) * 1 + k * 512];
            // for (let e = 0; e < each; e++)
            #pragma unroll
            for (int e = 0; e < 1; e++) {
              // for (let half = 0; half < 2; half++) {
              #pragma unroll
              for (int half = 0; half < 2; half++) {
                // const to = 4 * idiv(i, 2) + 2 * half + (i % 2);
                const int to = 4 * (i / 2) + 2 * half + i % 2;
                // sums[e][to] = fma(u[e][half], v, sums[e][to]);
                sums[e][to] = fmaf(u[e][half], v, sums[e][to]);
              }
            }
          }
          // k += 1;
          k = wrap_add(k, 1);
        }
      }
      // storeSums(c, sums, cs, beside, group, taken, at, context);
      const int taken_1 = taken;
      // const thread = threadIdx.x % THREADS;
      const int thread = index_below(threadIdx.x, 1024) % 128;
      // for (let tile = 0; tile < each * panels; tile++) {
      #pragma unroll
      for (int tile_1 = 0; tile_1 < 2; tile_1++) {
        // const e = idiv(tile, panels);
        const int e = tile_1 / 2;
        // const panel = tile % panels;
        const int panel = tile_1 % 2;
        // const number = taken * each * panels + tile;
        const int number_2 = wrap_add(wrap_mul(wrap_mul(taken_1, 1), 2), tile_1);
        // const held = number % 2;
        const int held_1 = number_2 % 2;
        // if (candidate + 1 === each * panels || tile === candidate) {
        if (tile_1 == 0) {
          // for (let i = 0; i < idiv(width, 4 * lanes); i++)
          #pragma unroll
          for (int i = 0; i < 4; i++) {
            // for (let half = 0; half < 2; half++)
            #pragma unroll
            for (int half = 0; half < 2; half++) {
              // const first = 2 * lanes * (panel * idiv(width, 4 * lanes) + i);
              const int first_1 = wrap_mul(4, wrap_add(0, i));
              // const n = e * views.count + idiv(first, idiv(viewColumns, 2));
              const int n = 0 + first_1 / 32;
              // const of = first % idiv(viewColumns, 2);
              const int of = first_1 % 32;
              // const at = of + 2 * half;
              const int at = of + 2 * half;
              // picked[2 * i + half] = sumsOf(sums, idiv(candidate, panels), candidate % panels, i, half, context);
              picked[2 * i + half] = f32x2{sums[n][at], sums[n][at + 1]};
            }
          }
        } else {
          // for (let i = 0; i < idiv(width, 4 * lanes); i++)
          #pragma unroll
          for (int i = 0; i < 4; i++) {
            // for (let half = 0; half < 2; half++)
            #pragma unroll
            for (int half = 0; half < 2; half++) {
              // const first = 2 * lanes * (panel * idiv(width, 4 * lanes) + i);
              const int first_1 = wrap_mul(4, wrap_add(4, i));
              // const n = e * views.count + idiv(first, idiv(viewColumns, 2));
              const int n = 0 + first_1 / 32;
              // const of = first % idiv(viewColumns, 2);
              const int of = first_1 % 32;
              // const at = of + 2 * half;
              const int at = of + 2 * half;
              // picked[2 * i + half] = sumsOf(sums, idiv(candidate, panels), candidate % panels, i, half, context);
              picked[2 * i + half] = f32x2{sums[n][at], sums[n][at + 1]};
            }
          }
        }
        // const place = tilePlace(at, group % together, e, panel, context);
        const int sharer = group % 2;
        // const down = (sharer * each + e) * ROWS;
        const int down = wrap_mul(wrap_add(wrap_mul(sharer, 1), e), 64);
        // const across = panel * width;
        const int across = wrap_mul(panel, 32);
        // for (let i = 0; i < across; i++) {
        #pragma unroll
        for (int i = 0; i < 4; i++) {
          // for (let half = 0; half < 2; half++) {
          #pragma unroll
          for (int half = 0; half < 2; half++) {
            // const across = 4 * work.lanes * i + work.lanes * (thread % 4);
            const int across_1 = wrap_add(wrap_mul(8, i), wrap_mul(2, thread % 4));
            // const warp = idiv(thread, 32);
            const int warp = thread / 32;
            // const g = idiv(thread % 32, 4);
            const int g = thread % 32 / 4;
            // const row = place.row + own.row;
            const int row_1 = wrap_add(wrap_add(row, down), wrap_add(wrap_add(wrap_mul(16, warp), g), wrap_mul(8, half)));
            // const column = place.column + own.column;
            const int column_1 = wrap_add(wrap_add(column, across), across_1);
            // const v = work.isLoop ? picked[2 * i + half]! : sumsOf(sums, e, panel, i, half, context);
            const f32x2 v = picked[2 * i + half];
            // const ofBias = work.biased ? biases[exchanged ? 0 : i]! : v;
            const f32x2 ofBias = v;
            // values[2 * i + half] = finished;
            values[2 * i + half] = v;
          }
        }
        // if (byEngine && thread === 0) tmaWait(1);
        if (thread == 0) {
          tma_wait_1();
        }
        // groupBarrier(1 + group, THREADS);
        group_barrier(wrap_add(1, group), 128);
        // for (let i = 0; i < across; i++) {
        #pragma unroll
        for (int i = 0; i < 4; i++) {
          // for (let half = 0; half < 2; half++) {
          #pragma unroll
          for (int half = 0; half < 2; half++) {
            // const across = 4 * work.lanes * i + work.lanes * (thread % 4);
            const int across_1 = 8 * i + 2 * (thread % 4);
            // const warp = idiv(thread, 32);
            const int warp = thread / 32;
            // const g = idiv(thread % 32, 4);
            const int g = thread % 32 / 4;
            // else store2(cs, group, held, row, column, values[2 * i + half]);
            *reinterpret_cast<f32x2*>(swizzled_128(cs, ((group) * 2 + held_1) * 64 + 16 * warp + g + 8 * half, (across_1) * 4)) = values[2 * i + half];
          }
        }
        // if (byEngine) fenceAsync();
        fence_async();
        // groupBarrier(1 + group, THREADS);
        group_barrier(wrap_add(1, group), 128);
        // else if (thread === 0) {
        if (thread == 0) {
          // : { batch, row: row + down, column: column + across };
          const int row_1 = wrap_add(row, down);
          const int column_1 = wrap_add(column, across);
          // const to = work.inParts ? split * work.sizes.batches + batch : batch;
          const int to = batch;
          // for (let i = 0; i < boxes; i++)
          #pragma unroll
          for (int i = 0; i < 1; i++) {
            // tmaStore(c, to, row, column + i * width, cs, group, held, i * idiv(ROWS, boxes), 0);
            tma_store_3d(cs + ((((group) * 2 + held_1) * 64 + wrap_mul(i, 64)) * 32 + 0) * 4, c, wrap_add(column_1, wrap_mul(i, 32)), row_1, to);
          }
          // tmaCommit();
          tma_commit();
        }
      }
      // taken += 1;
      taken = wrap_add(taken, 1);
      // number += 1;
      number = wrap_add(number, 1);
    }
    // if (threadIdx.x % THREADS === 0) tmaWait(0);
    if (index_below(threadIdx.x, 1024) % 128 == 0) {
      tma_wait_0();
    }
  }
}
