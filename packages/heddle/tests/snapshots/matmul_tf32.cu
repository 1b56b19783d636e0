struct alignas(16) f32x4 { float x, y, z, w; };
struct alignas(8) f32x2 { float x, y; };
__device__ inline int warp_id() { return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32u; }
__device__ inline int lane_id() { int id; asm("mov.u32 %0, %%laneid;" : "=r"(id)); return id; }
__device__ inline f32x4 splat_f32x4(float a) { return {a, a, a, a}; }
__device__ inline int wrap_mul(int a, int b) { return (int)((unsigned int)a * (unsigned int)b); }
__device__ inline int wrap_add(int a, int b) { return (int)((unsigned int)a + (unsigned int)b); }
__device__ inline void copy_async_16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
    :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)) : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ inline void wait_copies_1() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }
__device__ inline int wrap_sub(int a, int b) { return (int)((unsigned int)a - (unsigned int)b); }
__device__ inline f32x4 mma_tf32(f32x4 a, f32x2 b, f32x4 c) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w)
    : "r"(__float_as_uint(a.x)), "r"(__float_as_uint(a.y)), "r"(__float_as_uint(a.z)), "r"(__float_as_uint(a.w)), "r"(__float_as_uint(b.x)), "r"(__float_as_uint(b.y)));
  return c;
}

extern "C" __global__ void matmul_tf32(const float* a, const float* b, float* c) {
  alignas(16) extern __shared__ unsigned char dynamic_shared[];
  float* const held = reinterpret_cast<float*>(dynamic_shared);
  alignas(16) f32x4 sums[2][4];
  alignas(16) f32x4 as[2];
  alignas(16) f32x2 bs[4];
  // const band = idiv(blockIdx.x, BAND * ACROSS) * BAND;
  const int band = int(blockIdx.x) / 64 * 8;
  // const place = blockIdx.x % (BAND * ACROSS);
  const int place = int(blockIdx.x) % 64;
  // const row = (band + (place % high)) * A.rows;
  const int row = (band + place % 8) * 64;
  // const column = idiv(place, high) * B.rows;
  const int column = place / 8 * 64;
  // const split = blockIdx.y;
  const int split = int(blockIdx.y);
  // const batch = blockIdx.z;
  const int batch = int(blockIdx.z);
  // const warpRow = idiv(warpId, WN) * (16 * TM);
  const int warpRow = warp_id() / 2 * 32;
  // const warpColumn = (warpId % WN) * (8 * TN);
  const int warpColumn = warp_id() % 2 * 32;
  // const g = idiv(laneId, 4);
  const int g = lane_id() / 4;
  // const t = laneId % 4;
  const int t = lane_id() % 4;
  // const aAt = A.kMajor ? (warpRow + g) * A.pitch + 2 * t : warpRow + g + 2 * t * A.pitch;
  const int aAt = (warpRow + g) * 40 + 2 * t;
  // const bAt =
  const int bAt = 2560 + ((warpColumn + g) * 40 + 2 * t);
  // for (let i = 0; i < TM; i++) for (let j = 0; j < TN; j++) sums[i][j] = splat4(0);
  #pragma unroll
  for (int i = 0; i < 2; i++) {
    #pragma unroll
    for (int j = 0; j < 4; j++) {
      sums[i][j] = splat_f32x4(0.0f);
    }
  }
  // const eighth = idiv(laneId, 8);
  const int eighth = lane_id() / 8;
  // const rowA = (laneId % 8) + (eighth % 2) * 8;
  const int rowA = wrap_add(lane_id() % 8, wrap_mul(eighth % 2, 8));
  // const stepA = idiv(eighth, 2) * 8;
  const int stepA = wrap_mul(eighth / 2, 8);
  // const halfA = A.kMajor
  const int halfA = wrap_add(wrap_mul(wrap_add(warpRow, rowA), 40), stepA);
  // const columnB = (laneId % 8) + idiv(eighth, 2) * 8;
  const int columnB = wrap_add(lane_id() % 8, wrap_mul(eighth / 2, 8));
  // const stepB = (eighth % 2) * 8;
  const int stepB = wrap_mul(eighth % 2, 8);
  // const halfB =
  const int halfB = wrap_add(2560, wrap_add(wrap_mul(wrap_add(warpColumn, columnB), 40), stepB));
  // for (let chunk = 0; chunk < STAGES - 1; chunk++) copy(chunk, chunk);
  #pragma unroll
  for (int chunk = 0; chunk < 2; chunk++) {
    // const step = (split * CHUNKS + chunk) * DEPTH;
    const int step = (split * 16 + chunk) * 32;
    // copyPanel(a, left, held, stage * STAGE, row, step, A, context);
    const int at = chunk * 5120;
    // const outer = idiv(threadIdx.x, count);
    const int outer = int(threadIdx.x) / 8;
    // const along = (threadIdx.x % count) * P.vector;
    const int along = int(threadIdx.x) % 8 * 4;
    // const warp = idiv(slot, P.share.lanes * P.share.each);
    const int warp = outer / 32;
    // const rest = slot % (P.share.lanes * P.share.each);
    const int rest = outer % 32;
    // const i = idiv(rest, P.share.lanes);
    const int i = rest / 32;
    // const lane = rest % P.share.lanes;
    const int lane = rest % 32;
    // const row = firstRow + (P.kMajor ? rowOfSlot(outer, P, context) : along);
    const int row_1 = row + (warp * 32 + i / 1 * 32 + lane * 1 + i % 1);
    // const step = firstStep + (P.kMajor ? along : outer);
    const int step_1 = step + along;
    // const to = at + outer * P.pitch + along;
    const int to = at + outer * 40 + along;
    // const from = start + row * P.rowStep + step * P.innerStep;
    const int from = 0 + row_1 * 512 + step_1 * 1;
    // for (let i = 0; i < total / THREADS; i++) {
    #pragma unroll
    for (int i_1 = 0; i_1 < 4; i_1++) {
      // const down = i * round;
      const int down = i_1 * 16;
      // copyPiece(held, to + down * P.pitch, x, from + down * P.rowStep, row + down, step, P, context);
      const int to_1 = to + down * 40;
      const int from_1 = from + down * 512;
      const int row_2 = wrap_add(row_1, down);
      // if (P.vector === 4) copyAsync4(held, to, x, from);
      copy_async_16(&held[to_1], a + from_1);
    }
    // copyPanel(b, right, held, stage * STAGE + A.floats, column, step, B, context);
    const int at_1 = chunk * 5120 + 2560;
    // const outer = idiv(threadIdx.x, count);
    const int outer_1 = int(threadIdx.x) / 8;
    // const along = (threadIdx.x % count) * P.vector;
    const int along_1 = int(threadIdx.x) % 8 * 4;
    // const warp = idiv(slot, P.share.lanes * P.share.each);
    const int warp_1 = outer_1 / 32;
    // const rest = slot % (P.share.lanes * P.share.each);
    const int rest_1 = outer_1 % 32;
    // const i = idiv(rest, P.share.lanes);
    const int i_1 = rest_1 / 32;
    // const lane = rest % P.share.lanes;
    const int lane_1 = rest_1 % 32;
    // const row = firstRow + (P.kMajor ? rowOfSlot(outer, P, context) : along);
    const int row_2 = column + (warp_1 * 32 + i_1 / 1 * 32 + lane_1 * 1 + i_1 % 1);
    // const step = firstStep + (P.kMajor ? along : outer);
    const int step_2 = step + along_1;
    // const to = at + outer * P.pitch + along;
    const int to_1 = at_1 + outer_1 * 40 + along_1;
    // const from = start + row * P.rowStep + step * P.innerStep;
    const int from_1 = 0 + row_2 * 512 + step_2 * 1;
    // for (let i = 0; i < total / THREADS; i++) {
    #pragma unroll
    for (int i_2 = 0; i_2 < 4; i_2++) {
      // const down = i * round;
      const int down = i_2 * 16;
      // copyPiece(held, to + down * P.pitch, x, from + down * P.rowStep, row + down, step, P, context);
      const int to_2 = to_1 + down * 40;
      const int from_2 = from_1 + down * 512;
      const int row_3 = wrap_add(row_2, down);
      // if (P.vector === 4) copyAsync4(held, to, x, from);
      copy_async_16(&held[to_2], b + from_2);
    }
    // commitCopies();
    commit_copies();
  }
  // let used = 0;
  int used = 0;
  // let filled = STAGES - 1;
  int filled = 2;
  // let chunk = 0;
  int chunk = 0;
  // while (chunk < CHUNKS) {
  while (chunk < 16) {
    // waitCopies(STAGES - 2);
    wait_copies_1();
    // barrier();
    __syncthreads();
    // if (chunk + STAGES - 1 < CHUNKS) copy(chunk + STAGES - 1, filled);
    if (wrap_sub(wrap_add(chunk, 3), 1) < 16) {
      const int chunk_1 = chunk + 3 - 1;
      const int stage = filled;
      // const step = (split * CHUNKS + chunk) * DEPTH;
      const int step = (split * 16 + chunk_1) * 32;
      // copyPanel(a, left, held, stage * STAGE, row, step, A, context);
      const int at = stage * 5120;
      // const outer = idiv(threadIdx.x, count);
      const int outer = int(threadIdx.x) / 8;
      // const along = (threadIdx.x % count) * P.vector;
      const int along = int(threadIdx.x) % 8 * 4;
      // const warp = idiv(slot, P.share.lanes * P.share.each);
      const int warp = outer / 32;
      // const rest = slot % (P.share.lanes * P.share.each);
      const int rest = outer % 32;
      // const i = idiv(rest, P.share.lanes);
      const int i = rest / 32;
      // const lane = rest % P.share.lanes;
      const int lane = rest % 32;
      // const row = firstRow + (P.kMajor ? rowOfSlot(outer, P, context) : along);
      const int row_1 = row + (warp * 32 + i / 1 * 32 + lane * 1 + i % 1);
      // const step = firstStep + (P.kMajor ? along : outer);
      const int step_1 = step + along;
      // const to = at + outer * P.pitch + along;
      const int to = at + outer * 40 + along;
      // const from = start + row * P.rowStep + step * P.innerStep;
      const int from = 0 + row_1 * 512 + step_1 * 1;
      // for (let i = 0; i < total / THREADS; i++) {
      #pragma unroll
      for (int i_1 = 0; i_1 < 4; i_1++) {
        // const down = i * round;
        const int down = i_1 * 16;
        // copyPiece(held, to + down * P.pitch, x, from + down * P.rowStep, row + down, step, P, context);
        const int to_1 = to + down * 40;
        const int from_1 = from + down * 512;
        const int row_2 = wrap_add(row_1, down);
        // if (P.vector === 4) copyAsync4(held, to, x, from);
        copy_async_16(&held[to_1], a + from_1);
      }
      // copyPanel(b, right, held, stage * STAGE + A.floats, column, step, B, context);
      const int at_1 = stage * 5120 + 2560;
      // const outer = idiv(threadIdx.x, count);
      const int outer_1 = int(threadIdx.x) / 8;
      // const along = (threadIdx.x % count) * P.vector;
      const int along_1 = int(threadIdx.x) % 8 * 4;
      // const warp = idiv(slot, P.share.lanes * P.share.each);
      const int warp_1 = outer_1 / 32;
      // const rest = slot % (P.share.lanes * P.share.each);
      const int rest_1 = outer_1 % 32;
      // const i = idiv(rest, P.share.lanes);
      const int i_1 = rest_1 / 32;
      // const lane = rest % P.share.lanes;
      const int lane_1 = rest_1 % 32;
      // const row = firstRow + (P.kMajor ? rowOfSlot(outer, P, context) : along);
      const int row_2 = column + (warp_1 * 32 + i_1 / 1 * 32 + lane_1 * 1 + i_1 % 1);
      // const step = firstStep + (P.kMajor ? along : outer);
      const int step_2 = step + along_1;
      // const to = at + outer * P.pitch + along;
      const int to_1 = at_1 + outer_1 * 40 + along_1;
      // const from = start + row * P.rowStep + step * P.innerStep;
      const int from_1 = 0 + row_2 * 512 + step_2 * 1;
      // for (let i = 0; i < total / THREADS; i++) {
      #pragma unroll
      for (int i_2 = 0; i_2 < 4; i_2++) {
        // const down = i * round;
        const int down = i_2 * 16;
        // copyPiece(held, to + down * P.pitch, x, from + down * P.rowStep, row + down, step, P, context);
        const int to_2 = to_1 + down * 40;
        const int from_2 = from_1 + down * 512;
        const int row_3 = wrap_add(row_2, down);
        // if (P.vector === 4) copyAsync4(held, to, x, from);
        copy_async_16(&held[to_2], b + from_2);
      }
      // commitCopies();
      commit_copies();
    } else {
      // else commitCopies();
      commit_copies();
    }
    // else add(used);
    const int stage = used;
    // const atA = stage * STAGE + aAt;
    const int atA = stage * 5120 + aAt;
    // const atB = stage * STAGE + bAt;
    const int atB = stage * 5120 + bAt;
    // for (let k = 0; k < DEPTH; k += TF32 ? 8 : 16) {
    #pragma unroll
    for (int k = 0; k < 32; k += 8) {
      // for (let i = 0; i < TM; i++) {
      #pragma unroll
      for (int i = 0; i < 2; i++) {
        // const upper = pairOfA(atA, i * 16, k);
        const int rows = i * 16;
        const f32x2 upper = *reinterpret_cast<f32x2*>(&held[atA + rows * 40 + k]);
        // const lower = pairOfA(atA, i * 16 + 8, k);
        const int rows_1 = i * 16 + 8;
        const f32x2 lower = *reinterpret_cast<f32x2*>(&held[atA + rows_1 * 40 + k]);
        // near(lane(upper, 0)),
        const float v = upper.x;
        // near(lane(lower, 0)),
        const float v_1 = lower.x;
        // near(lane(upper, 1)),
        const float v_2 = upper.y;
        // near(lane(lower, 1)),
        const float v_3 = lower.y;
        // as[i] = vec4(
        as[i] = f32x4{fabsf(v) < __uint_as_float(0x7f800000u) ? __uint_as_float(__float_as_uint(v) + 4096u) : v, fabsf(v_1) < __uint_as_float(0x7f800000u) ? __uint_as_float(__float_as_uint(v_1) + 4096u) : v_1, fabsf(v_2) < __uint_as_float(0x7f800000u) ? __uint_as_float(__float_as_uint(v_2) + 4096u) : v_2, fabsf(v_3) < __uint_as_float(0x7f800000u) ? __uint_as_float(__float_as_uint(v_3) + 4096u) : v_3};
      }
      // for (let j = 0; j < TN; j++) {
      #pragma unroll
      for (int j = 0; j < 4; j++) {
        // const v = pairOfB(atB, j * 8, k);
        const int columns = j * 8;
        const f32x2 v = *reinterpret_cast<f32x2*>(&held[atB + columns * 40 + k]);
        // bs[j] = vec2(near(lane(v, 0)), near(lane(v, 1)));
        const float v_1 = v.x;
        const float v_2 = v.y;
        bs[j] = f32x2{fabsf(v_1) < __uint_as_float(0x7f800000u) ? __uint_as_float(__float_as_uint(v_1) + 4096u) : v_1, fabsf(v_2) < __uint_as_float(0x7f800000u) ? __uint_as_float(__float_as_uint(v_2) + 4096u) : v_2};
      }
      // for (let i = 0; i < TM; i++)
      #pragma unroll
      for (int i = 0; i < 2; i++) {
        // for (let j = 0; j < TN; j++) sums[i][j] = mma(as[i], bs[j], sums[i][j]);
        #pragma unroll
        for (int j = 0; j < 4; j++) {
          const f32x4 mma = mma_tf32(as[i], bs[j], sums[i][j]);
          sums[i][j] = mma;
        }
      }
    }
    // used = used === STAGES - 1 ? 0 : used + 1;
    used = used == 2 ? 0 : wrap_add(used, 1);
    // filled = filled === STAGES - 1 ? 0 : filled + 1;
    filled = filled == 2 ? 0 : wrap_add(filled, 1);
    // chunk += 1;
    chunk = chunk + 1;
  }
  // const part = SPLITS > 1 ? split * BATCHES + batch : batch;
  const int part = batch;
  // for (let i = 0; i < TM; i++) {
  #pragma unroll
  for (int i = 0; i < 2; i++) {
    // for (let j = 0; j < TN; j++) {
    #pragma unroll
    for (int j = 0; j < 4; j++) {
      // const r = row + warpRow + i * 16 + g;
      const int r = row + warpRow + i * 16 + g;
      // const n = column + warpColumn + j * 8 + 2 * t;
      const int n = column + warpColumn + j * 8 + 2 * t;
      // put(r, n, lane(sums[i][j], 0), lane(sums[i][j], 1));
      const float low = sums[i][j].x;
      const float high = sums[i][j].y;
      // const at = (part * M + r) * N + n;
      const int at = (part * 512 + r) * 512 + n;
      // if (r < M && n < N) {
      if (r < 512 && n < 512) {
        // const both = vec2(low, high);
        const f32x2 both = f32x2{low, high};
        // store2(c, at, SPLITS > 1 ? both : finish(rounded(both), batch, r, n));
        *reinterpret_cast<f32x2*>(c + at) = both;
      }
      // put(r + 8, n, lane(sums[i][j], 2), lane(sums[i][j], 3));
      const int r_1 = r + 8;
      const float low_1 = sums[i][j].z;
      const float high_1 = sums[i][j].w;
      // const at = (part * M + r) * N + n;
      const int at_1 = (part * 512 + r_1) * 512 + n;
      // if (r < M && n < N) {
      if (r_1 < 512 && n < 512) {
        // const both = vec2(low, high);
        const f32x2 both = f32x2{low_1, high_1};
        // store2(c, at, SPLITS > 1 ? both : finish(rounded(both), batch, r, n));
        *reinterpret_cast<f32x2*>(c + at_1) = both;
      }
    }
  }
}
