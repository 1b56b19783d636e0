typedef unsigned short bf16;  // the upper 16 bits of a float
struct alignas(16) f32x4 { float x, y, z, w; };
struct alignas(16) u32x4 { unsigned x, y, z, w; };
struct alignas(8) u32x2 { unsigned x, y; };
__device__ inline int index_below(unsigned i, unsigned end) { __builtin_assume(i < end); return i; }
__device__ inline int warp_id() { return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32u; }
__device__ inline int lane_id() { unsigned id; asm("mov.u32 %0, %%laneid;" : "=r"(id)); __builtin_assume(id < 32); return id; }
__device__ inline int wrap_mul(int a, int b) { return (int)((unsigned int)a * (unsigned int)b); }
__device__ inline int wrap_add(int a, int b) { return (int)((unsigned int)a + (unsigned int)b); }
__device__ inline f32x4 splat_f32x4(float a) { return {a, a, a, a}; }
__device__ inline void copy_async_16_if(void* to, const void* from, bool there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;"
    :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)), "r"(there ? 16 : 0) : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ inline void wait_copies_2() { asm volatile("cp.async.wait_group 2;" ::: "memory"); }
__device__ inline u32x4 load_matrix_4(const void* row) {
  u32x4 r;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
    : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
  return r;
}
__device__ inline u32x4 load_matrix_4_transposed(const void* row) {
  u32x4 r;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
    : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
  return r;
}
__device__ inline void wait_copies_1() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }
__device__ inline f32x4 mma_bf16(u32x4 a, u32x2 b, f32x4 c) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w)
    : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
  return c;
}
struct alignas(8) f32x2 { float x, y; };
struct alignas(4) bf16x2 { bf16 x, y; };
__device__ inline bf16 float_to_bf16(float f) { unsigned both; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(0.0f), "f"(f)); return (bf16)both; }
__device__ inline bf16x2 store_bf16x2(f32x2 a) { return {float_to_bf16(a.x), float_to_bf16(a.y)}; }

extern "C" __global__ void matmul_of_bf16(const unsigned* a, const unsigned* b, bf16* c) {
  alignas(16) extern __shared__ unsigned char dynamic_shared[];
  unsigned* const held = reinterpret_cast<unsigned*>(dynamic_shared);
  alignas(16) f32x4 sums[2][4];
  alignas(16) u32x4 as[4][2];
  alignas(16) u32x2 bs[4][4];
  // const tile = sizes.batches === 1 ? blockIdx.x : blockIdx.x % (down * across);
  const int tile = index_below(blockIdx.x, 0x7fffffff);
  // const inBand = tiles.band === down ? tile : tile % (tiles.band * across);
  const int inBand = tile;
  // const row = (band + (inBand % high)) * rows;
  const int row = (0 + inBand % 8) * 64;
  // const column = idiv(inBand, high) * columns;
  const int column = inBand / 8 * 64;
  // const split = blockIdx.y;
  const int split = index_below(blockIdx.y, 65535);
  // const warpRow = idiv(warps.K === 1 ? warpId : warpId % (warps.M * warps.N), warps.N) * (rows / warps.M);
  const int warpRow = warp_id() / 2 * 32;
  // const warpColumn = (warpId % warps.N) * (columns / warps.N);
  const int warpColumn = warp_id() % 2 * 32;
  // const second = idiv(laneId, 8) % 2;
  const int second = lane_id() / 8 % 2;
  // const third = idiv(laneId, 16);
  const int third = lane_id() / 16;
  // const line = laneId % 8;
  const int line = lane_id() % 8;
  // const aAt = startOfLane(work.a, at.warpRow, second, third, at, context);
  const int aAt = 0 + (warpRow + line + 8 * second) * 20 + 4 * third;
  // const line = laneId % 8;
  const int line_1 = lane_id() % 8;
  // const bAt = work.a.elements + startOfLane(work.b, at.warpColumn, third, second, at, context);
  const int bAt = 1280 + (0 + (line_1 + 8 * second) * 36 + wrap_add(warpColumn, wrap_mul(8, third)) / 2);
  // for (let i = 0; i < each[0]; i++) for (let j = 0; j < each[1]; j++) sums[i][j] = splat4(0);
  #pragma unroll
  for (int i = 0; i < 2; i++) {
    #pragma unroll
    for (int j = 0; j < 4; j++) {
      sums[i][j] = splat_f32x4(0.0f);
    }
  }
  // for (let chunk = 0; chunk < stages.count; chunk++) fetch(chunk, chunk);
  #pragma unroll
  for (int chunk = 0; chunk < 3; chunk++) {
    // const step = ((pieces === 1 ? at.split : at.split * pieces + piece) * chunks + chunk) * depth;
    const int step = (split * 16 + chunk) * 32;
    // const to = stage * stages.elements;
    const int to = chunk * 2432;
    // const inside = !work.a.beyond || chunk < chunks;
    const bool inside = chunk < 16;
    // const firstRow = P.perRow === 1 ? atRow : idiv(atRow, P.perRow);
    const int firstRow = row;
    // const firstStep = P.perStep === 1 ? atStep : idiv(atStep, P.perStep);
    const int firstStep = step / 2;
    // const outer = idiv(threadIdx.x, count);
    const int outer = index_below(threadIdx.x, 1024) / 4;
    // const along = (threadIdx.x % count) * P.vector;
    const int along = index_below(threadIdx.x, 1024) % 4 * 4;
    // const warp = idiv(slot, lanes * each);
    const int warp = outer / 32;
    // const inWarp = slot % (lanes * each);
    const int inWarp = outer % 32;
    // return warp * (lanes * each) + rowOfLane(idiv(inWarp, lanes), inWarp % lanes, P, context);
    const int i = inWarp / 32;
    const int lane = inWarp % 32;
    // const row = firstRow + (P.kMajor ? rowOfSlot(outer, P, context) : along);
    const int row_1 = firstRow + (warp * 32 + (i / 1 * 32 + lane * 1 + i % 1));
    // const step = firstStep + (P.kMajor ? along : outer);
    const int step_1 = firstStep + along;
    // const to = at + outer * P.pitch + along;
    const int to_1 = to + outer * 20 + along;
    // const from = start + row * P.rowStep + step * P.innerStep;
    const int from = 0 + row_1 * 256 + step_1 * 1;
    // for (let i = 0; i < total / threads; i++) {
    #pragma unroll
    for (int i_1 = 0; i_1 < 2; i_1++) {
      // const down = i * round;
      const int down = i_1 * 32;
      // if (P.kMajor) copy(to + down * P.pitch, from + down * P.rowStep, row + down, step);
      const int to_2 = to_1 + down * 20;
      const int from_1 = from + down * 256;
      const int row_2 = wrap_add(row_1, down);
      // const there = P.whole ? inside : inside && row < P.size && step < P.inner;
      const bool there = inside;
      // else if (P.vector === 4) copyAsync4(held, to, x, from, there);
      copy_async_16_if(&held[to_2], a + from_1, there);
    }
    // copyPanel(b, at.right, held, to + work.a.elements, at.column, step, inside, work.b, context);
    const int at = to + 1280;
    // const firstRow = P.perRow === 1 ? atRow : idiv(atRow, P.perRow);
    const int firstRow_1 = column / 2;
    // const firstStep = P.perStep === 1 ? atStep : idiv(atStep, P.perStep);
    const int firstStep_1 = step;
    // const outer = idiv(threadIdx.x, count);
    const int outer_1 = index_below(threadIdx.x, 1024) / 8;
    // const along = (threadIdx.x % count) * P.vector;
    const int along_1 = index_below(threadIdx.x, 1024) % 8 * 4;
    // const row = firstRow + (P.kMajor ? rowOfSlot(outer, P, context) : along);
    const int row_2 = firstRow_1 + along_1;
    // const step = firstStep + (P.kMajor ? along : outer);
    const int step_2 = firstStep_1 + outer_1;
    // const to = at + outer * P.pitch + along;
    const int to_2 = at + outer_1 * 36 + along_1;
    // const from = start + row * P.rowStep + step * P.innerStep;
    const int from_1 = 0 + row_2 * 1 + step_2 * 256;
    // for (let i = 0; i < total / threads; i++) {
    #pragma unroll
    for (int i_1 = 0; i_1 < 2; i_1++) {
      // const down = i * round;
      const int down = i_1 * 16;
      // else copy(to + down * P.pitch, from + down * P.innerStep, row, step + down);
      const int to_3 = to_2 + down * 36;
      const int from_2 = from_1 + down * 256;
      const int step_3 = wrap_add(step_2, down);
      // const there = P.whole ? inside : inside && row < P.size && step < P.inner;
      const bool there = inside;
      // else if (P.vector === 4) copyAsync4(held, to, x, from, there);
      copy_async_16_if(&held[to_3], b + from_2, there);
    }
    // commitCopies();
    commit_copies();
  }
  // waitCopies(stages.count - 1);
  wait_copies_2();
  // barrier();
  __syncthreads();
  // readA(as, to, held, stage * stages.elements + own.aAt + aStep, context);
  const int at = 0 + aAt + 0;
  // if (kMajor) for (let i = 0; i < each[0]; i++) as[to][i] = loadMatrix4(held, at + i * (16 * pitch));
  #pragma unroll
  for (int i = 0; i < 2; i++) {
    const u32x4 loadMatrix4 = load_matrix_4(&held[at + i * 320]);
    as[0][i] = loadMatrix4;
  }
  // readB(bs, to, held, stage * stages.elements + own.bAt + bStep, context);
  const int at_1 = 0 + bAt + 0;
  // for (let j = 0; j < each[1]; j += 2) {
  #pragma unroll
  for (int j = 0; j < 4; j += 2) {
    // const v = kMajor
    const u32x4 v = load_matrix_4_transposed(&held[at_1 + wrap_mul(j, 8) / 2]);
    // bs[to][j] = vec2(lane(v, 0), lane(v, 1));
    bs[0][j] = u32x2{v.x, v.y};
    // bs[to][j + 1] = vec2(lane(v, 2), lane(v, 3));
    bs[0][j + 1] = u32x2{v.z, v.w};
  }
  // let used = 0;
  int used = 0;
  // let chunk = 0;
  int chunk = 0;
  // while (chunk < chunks) {
  while (chunk < 16) {
    // for (let k = 0; k < depth / warps.K; k += step) {
    #pragma unroll
    for (int k = 0; k < 32; k += 16) {
      // if (k + step < depth / warps.K) readStep(own, next, held, used, k + step, context);
      if (wrap_add(k, 16) < 32) {
        const int stage = used;
        const int k_1 = k + 16;
        // const aStep = a.kMajor ? idiv(k, a.perStep) : k * a.pitch;
        const int aStep = k_1 / 2;
        // const bStep = b.kMajor ? idiv(k, b.perStep) : k * b.pitch;
        const int bStep = k_1 * 36;
        // readA(as, to, held, stage * stages.elements + own.aAt + aStep, context);
        const int at_2 = stage * 2432 + aAt + aStep;
        // if (kMajor) for (let i = 0; i < each[0]; i++) as[to][i] = loadMatrix4(held, at + i * (16 * pitch));
        #pragma unroll
        for (int i = 0; i < 2; i++) {
          const u32x4 loadMatrix4 = load_matrix_4(&held[at_2 + i * 320]);
          as[k / 16 % 2 == 0 ? 1 : 0][i] = loadMatrix4;
        }
        // readB(bs, to, held, stage * stages.elements + own.bAt + bStep, context);
        const int at_3 = stage * 2432 + bAt + bStep;
        // for (let j = 0; j < each[1]; j += 2) {
        #pragma unroll
        for (int j = 0; j < 4; j += 2) {
          // const v = kMajor
          const u32x4 v = load_matrix_4_transposed(&held[at_3 + wrap_mul(j, 8) / 2]);
          // bs[to][j] = vec2(lane(v, 0), lane(v, 1));
          bs[k / 16 % 2 == 0 ? 1 : 0][j] = u32x2{v.x, v.y};
          // bs[to][j + 1] = vec2(lane(v, 2), lane(v, 3));
          bs[k / 16 % 2 == 0 ? 1 : 0][j + 1] = u32x2{v.z, v.w};
        }
      } else {
        // waitCopies(stages.count - 2);
        wait_copies_1();
        // barrier();
        __syncthreads();
        // const free = used;
        const int free_ = used;
        // used = used === stages.count - 1 ? 0 : used + 1;
        used = used == 2 ? 0 : wrap_add(used, 1);
        // readStep(own, next, held, used, 0, context);
        const int stage = used;
        // readA(as, to, held, stage * stages.elements + own.aAt + aStep, context);
        const int at_2 = stage * 2432 + aAt + 0;
        // if (kMajor) for (let i = 0; i < each[0]; i++) as[to][i] = loadMatrix4(held, at + i * (16 * pitch));
        #pragma unroll
        for (int i = 0; i < 2; i++) {
          const u32x4 loadMatrix4 = load_matrix_4(&held[at_2 + i * 320]);
          as[k / 16 % 2 == 0 ? 1 : 0][i] = loadMatrix4;
        }
        // readB(bs, to, held, stage * stages.elements + own.bAt + bStep, context);
        const int at_3 = stage * 2432 + bAt + 0;
        // for (let j = 0; j < each[1]; j += 2) {
        #pragma unroll
        for (int j = 0; j < 4; j += 2) {
          // const v = kMajor
          const u32x4 v = load_matrix_4_transposed(&held[at_3 + wrap_mul(j, 8) / 2]);
          // bs[to][j] = vec2(lane(v, 0), lane(v, 1));
          bs[k / 16 % 2 == 0 ? 1 : 0][j] = u32x2{v.x, v.y};
          // bs[to][j + 1] = vec2(lane(v, 2), lane(v, 3));
          bs[k / 16 % 2 == 0 ? 1 : 0][j + 1] = u32x2{v.z, v.w};
        }
        // fetch(chunk + stages.count, free);
        const int chunk_1 = chunk + 3;
        // const step = ((pieces === 1 ? at.split : at.split * pieces + piece) * chunks + chunk) * depth;
        const int step = (split * 16 + chunk_1) * 32;
        // const to = stage * stages.elements;
        const int to = free_ * 2432;
        // const inside = !work.a.beyond || chunk < chunks;
        const bool inside = chunk_1 < 16;
        // const firstRow = P.perRow === 1 ? atRow : idiv(atRow, P.perRow);
        const int firstRow = row;
        // const firstStep = P.perStep === 1 ? atStep : idiv(atStep, P.perStep);
        const int firstStep = step / 2;
        // const outer = idiv(threadIdx.x, count);
        const int outer = index_below(threadIdx.x, 1024) / 4;
        // const along = (threadIdx.x % count) * P.vector;
        const int along = index_below(threadIdx.x, 1024) % 4 * 4;
        // const warp = idiv(slot, lanes * each);
        const int warp = outer / 32;
        // const inWarp = slot % (lanes * each);
        const int inWarp = outer % 32;
        // return warp * (lanes * each) + rowOfLane(idiv(inWarp, lanes), inWarp % lanes, P, context);
        const int i = inWarp / 32;
        const int lane = inWarp % 32;
        // const row = firstRow + (P.kMajor ? rowOfSlot(outer, P, context) : along);
        const int row_1 = firstRow + (warp * 32 + (i / 1 * 32 + lane * 1 + i % 1));
        // const step = firstStep + (P.kMajor ? along : outer);
        const int step_1 = firstStep + along;
        // const to = at + outer * P.pitch + along;
        const int to_1 = to + outer * 20 + along;
        // const from = start + row * P.rowStep + step * P.innerStep;
        const int from = 0 + row_1 * 256 + step_1 * 1;
        // for (let i = 0; i < total / threads; i++) {
        #pragma unroll
        for (int i_1 = 0; i_1 < 2; i_1++) {
          // const down = i * round;
          const int down = i_1 * 32;
          // if (P.kMajor) copy(to + down * P.pitch, from + down * P.rowStep, row + down, step);
          const int to_2 = to_1 + down * 20;
          const int from_1 = from + down * 256;
          const int row_2 = wrap_add(row_1, down);
          // const there = P.whole ? inside : inside && row < P.size && step < P.inner;
          const bool there = inside;
          // else if (P.vector === 4) copyAsync4(held, to, x, from, there);
          copy_async_16_if(&held[to_2], a + from_1, there);
        }
        // copyPanel(b, at.right, held, to + work.a.elements, at.column, step, inside, work.b, context);
        const int at_4 = to + 1280;
        // const firstRow = P.perRow === 1 ? atRow : idiv(atRow, P.perRow);
        const int firstRow_1 = column / 2;
        // const firstStep = P.perStep === 1 ? atStep : idiv(atStep, P.perStep);
        const int firstStep_1 = step;
        // const outer = idiv(threadIdx.x, count);
        const int outer_1 = index_below(threadIdx.x, 1024) / 8;
        // const along = (threadIdx.x % count) * P.vector;
        const int along_1 = index_below(threadIdx.x, 1024) % 8 * 4;
        // const row = firstRow + (P.kMajor ? rowOfSlot(outer, P, context) : along);
        const int row_2 = firstRow_1 + along_1;
        // const step = firstStep + (P.kMajor ? along : outer);
        const int step_2 = firstStep_1 + outer_1;
        // const to = at + outer * P.pitch + along;
        const int to_2 = at_4 + outer_1 * 36 + along_1;
        // const from = start + row * P.rowStep + step * P.innerStep;
        const int from_1 = 0 + row_2 * 1 + step_2 * 256;
        // for (let i = 0; i < total / threads; i++) {
        #pragma unroll
        for (int i_1 = 0; i_1 < 2; i_1++) {
          // const down = i * round;
          const int down = i_1 * 16;
          // else copy(to + down * P.pitch, from + down * P.innerStep, row, step + down);
          const int to_3 = to_2 + down * 36;
          const int from_2 = from_1 + down * 256;
          const int step_3 = wrap_add(step_2, down);
          // const there = P.whole ? inside : inside && row < P.size && step < P.inner;
          const bool there = inside;
          // else if (P.vector === 4) copyAsync4(held, to, x, from, there);
          copy_async_16_if(&held[to_3], b + from_2, there);
        }
        // commitCopies();
        commit_copies();
      }
      // for (let i = 0; i < each[0]; i++) {
      #pragma unroll
      for (int i = 0; i < 2; i++) {
        // const v = as[from][i];
        const u32x4 v = as[1 - (k / 16 % 2 == 0 ? 1 : 0)][i];
        // for (let j = 0; j < each[1]; j++) {
        #pragma unroll
        for (int j = 0; j < 4; j++) {
          // const w = bs[from][j];
          const u32x2 w = bs[1 - (k / 16 % 2 == 0 ? 1 : 0)][j];
          // else sums[i][j] = mmaBf16(v, w, sums[i][j]);
          const f32x4 mmaBf16 = mma_bf16(v, w, sums[i][j]);
          sums[i][j] = mmaBf16;
        }
      }
    }
    // chunk += 1;
    chunk = chunk + 1;
  }
  // const firstRow = at.row + at.warpRow + idiv(laneId, 4);
  const int firstRow = row + warpRow + lane_id() / 4;
  // const firstColumn = at.column + at.warpColumn + 2 * (laneId % 4);
  const int firstColumn = column + warpColumn + 2 * (lane_id() % 4);
  // for (let i = 0; i < each[0]; i++) {
  #pragma unroll
  for (int i = 0; i < 2; i++) {
    // for (let j = 0; j < each[1]; j++) {
    #pragma unroll
    for (int j = 0; j < 4; j++) {
      // const v = sums[i][j];
      const f32x4 v = sums[i][j];
      // const row = firstRow + i * 16;
      const int row_1 = firstRow + i * 16;
      // const column = firstColumn + j * 8;
      const int column_1 = firstColumn + j * 8;
      // storePair(c, lane(v, 0), lane(v, 1), piece, row, column, at, context);
      const float low = v.x;
      const float high = v.y;
      // if (work.sizes.N % 2 === 0) storeSums(c, vec2(low, high), 2, piece, row, column, at, context);
      const f32x2 v_1 = f32x2{low, high};
      // const to = ((work.inParts ? split * batches + batch : batch) * M + row) * N + column;
      const int to = (0 + row_1) * 512 + column_1;
      // if (row < M && column < N) {
      if (row_1 < 512 && column_1 < 512) {
        // if (!work.inParts) storeLanes(c, to, finish(work.cast(v), batch, row, column), lanes, context);
        const f32x2 t = v_1;
        // else if (lanes === 2) store2(x, at, v);
        *reinterpret_cast<bf16x2*>(c + to) = store_bf16x2(t);
      }
      // storePair(c, lane(v, 2), lane(v, 3), piece, row + 8, column, at, context);
      const float low_1 = v.z;
      const float high_1 = v.w;
      const int row_2 = row_1 + 8;
      // if (work.sizes.N % 2 === 0) storeSums(c, vec2(low, high), 2, piece, row, column, at, context);
      const f32x2 v_2 = f32x2{low_1, high_1};
      // const to = ((work.inParts ? split * batches + batch : batch) * M + row) * N + column;
      const int to_1 = (0 + row_2) * 512 + column_1;
      // if (row < M && column < N) {
      if (row_2 < 512 && column_1 < 512) {
        // if (!work.inParts) storeLanes(c, to, finish(work.cast(v), batch, row, column), lanes, context);
        const f32x2 t = v_2;
        // else if (lanes === 2) store2(x, at, v);
        *reinterpret_cast<bf16x2*>(c + to_1) = store_bf16x2(t);
      }
    }
  }
}
