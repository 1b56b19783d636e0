__device__ inline int index_below(unsigned i, unsigned end) { __builtin_assume(i < end); return i; }
__device__ inline int warp_id() { return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32u; }
__device__ inline int lane_id() { unsigned id; asm("mov.u32 %0, %%laneid;" : "=r"(id)); __builtin_assume(id < 32); return id; }
__device__ inline int wrap_add(int a, int b) { return (int)((unsigned int)a + (unsigned int)b); }
__device__ inline void copy_async_16(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;"
    :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)) : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ inline void wait_copies_3() { asm volatile("cp.async.wait_group 3;" ::: "memory"); }
__device__ inline int wrap_mul(int a, int b) { return (int)((unsigned int)a * (unsigned int)b); }
struct alignas(16) f32x4 { float x, y, z, w; };
__device__ inline void wait_copies_2() { asm volatile("cp.async.wait_group 2;" ::: "memory"); }
__device__ inline void wait_copies_1() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }
__device__ inline void wait_copies_0() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }
struct alignas(8) f32x2 { float x, y; };

extern "C" __global__ void matmul_small(const float* a, const float* b, float* c) {
  alignas(16) extern __shared__ unsigned char dynamic_shared[];
  float* const held = reinterpret_cast<float*>(dynamic_shared);
  alignas(16) float sums[1][2];
  alignas(16) float from[1][4];
  alignas(16) float by[2][4];
  // const tile = BATCHES === 1 ? blockIdx.x : blockIdx.x % TILES;
  const int tile = index_below(blockIdx.x, 0x7fffffff);
  // const row = (tile % DOWN) * ROWS;
  const int row = tile % 8 * 8;
  // const column = idiv(tile, DOWN) * COLUMNS;
  const int column = tile / 8 * 8;
  // const split = blockIdx.y;
  const int split = index_below(blockIdx.y, 65535);
  // const share = WK === 1 ? 0 : idiv(warpId, WM * WN);
  const int share = warp_id() / 1;
  // const warpRow = idiv(WK === 1 ? warpId : warpId % (WM * WN), WN) * (LM * TM);
  const int warpRow = warp_id() % 1 / 1 * 8;
  // const warpColumn = (warpId % WN) * (LN * TN);
  const int warpColumn = warp_id() % 1 * 8;
  // const laneRow = idiv(laneId, LN);
  const int laneRow = lane_id() / 4;
  // const laneColumn = laneId % LN;
  const int laneColumn = lane_id() % 4;
  // const aAt = A.kMajor ? (warpRow + laneRow) * A.pitch : warpRow + laneRow * A.group;
  const int aAt = (warpRow + laneRow) * 204;
  // const bAt =
  const int bAt = 1632 + (warpColumn + laneColumn) * 204;
  // for (let i = 0; i < TM; i++) for (let j = 0; j < TN; j++) sums[i][j] = 0;
  #pragma unroll
  for (int i = 0; i < 1; i++) {
    #pragma unroll
    for (int j = 0; j < 2; j++) {
      sums[i][j] = 0.0f;
    }
  }
  // const mine = threadIdx.x * OUT;
  const int mine = index_below(threadIdx.x, 1024) * 1;
  // const ownRow = Math.min(row + idiv(mine, COLUMNS), M - 1);
  const int ownRow = min(wrap_add(row, mine / 8), 63);
  // const ownColumn =
  const int ownColumn = column + mine % 8;
  // for (let chunk = 0; chunk < CHUNKS; chunk++) copy(piece, chunk, chunk);
  #pragma unroll
  for (int chunk = 0; chunk < 4; chunk++) {
    // const step = ((PIECES === 1 ? split : split * PIECES + piece) * CHUNKS + chunk) * DEPTH;
    const int step = (split * 4 + chunk) * 196;
    // copyPanel(a, left, held, stage * STAGE, row, step, true, A, context);
    const int at = chunk * 3264;
    // const slot = idiv(threadIdx.x, beside);
    const int slot = index_below(threadIdx.x, 1024) / 32;
    // const warp = idiv(slot, P.share.lanes * P.share.each);
    const int warp = slot / 8;
    // const rest = slot % (P.share.lanes * P.share.each);
    const int rest = slot % 8;
    // const i = idiv(rest, P.share.lanes);
    const int i = rest / 8;
    // const lane = rest % P.share.lanes;
    const int lane = rest % 8;
    // const row = firstRow + rowOfSlot(slot, P, context);
    const int row_1 = row + (warp * 8 + i / 1 * 8 + lane * 1 + i % 1);
    // const to = at + slot * P.pitch;
    const int to = at + slot * 204;
    // const from = start + row * P.rowStep + firstStep * P.innerStep;
    const int from_1 = 0 + row_1 * 784 + step * 1;
    // for (let i = 0; i < count; i += beside) {
    #pragma unroll
    for (int i_1 = 0; i_1 < 49; i_1 += 32) {
      // const along = ((threadIdx.x % beside) + i) * P.vector;
      const int along = (index_below(threadIdx.x, 1024) % 32 + i_1) * 4;
      // if (i + beside <= count || along < P.depth)
      if (wrap_add(i_1, 32) <= 49 || along < 196) {
        // to + along,
        const int to_1 = to + along;
        // from + along * P.innerStep,
        const int from_2 = from_1 + along * 1;
        // firstStep + along,
        const int step_1 = wrap_add(step, along);
        // else if (P.vector === 4) copyAsync4(held, to, x, from);
        copy_async_16(&held[to_1], a + from_2);
      }
    }
    // copyPanel(b, right, held, stage * STAGE + A.floats, column, step, true, B, context);
    const int at_1 = chunk * 3264 + 1632;
    // const slot = idiv(threadIdx.x, beside);
    const int slot_1 = index_below(threadIdx.x, 1024) / 32;
    // const warp = idiv(slot, P.share.lanes * P.share.each);
    const int warp_1 = slot_1 / 8;
    // const rest = slot % (P.share.lanes * P.share.each);
    const int rest_1 = slot_1 % 8;
    // const i = idiv(rest, P.share.lanes);
    const int i_1 = rest_1 / 4;
    // const lane = rest % P.share.lanes;
    const int lane_1 = rest_1 % 4;
    // const row = firstRow + rowOfSlot(slot, P, context);
    const int row_2 = column + (warp_1 * 8 + i_1 / 2 * 8 + lane_1 * 2 + i_1 % 2);
    // const to = at + slot * P.pitch;
    const int to_1 = at_1 + slot_1 * 204;
    // const from = start + row * P.rowStep + firstStep * P.innerStep;
    const int from_2 = 0 + row_2 * 784 + step * 1;
    // for (let i = 0; i < count; i += beside) {
    #pragma unroll
    for (int i_2 = 0; i_2 < 49; i_2 += 32) {
      // const along = ((threadIdx.x % beside) + i) * P.vector;
      const int along = (index_below(threadIdx.x, 1024) % 32 + i_2) * 4;
      // if (i + beside <= count || along < P.depth)
      if (wrap_add(i_2, 32) <= 49 || along < 196) {
        // to + along,
        const int to_2 = to_1 + along;
        // from + along * P.innerStep,
        const int from_3 = from_2 + along * 1;
        // firstStep + along,
        const int step_1 = wrap_add(step, along);
        // else if (P.vector === 4) copyAsync4(held, to, x, from);
        copy_async_16(&held[to_2], b + from_3);
      }
    }
    // commitCopies();
    commit_copies();
  }
  // waitCopies(CHUNKS - 1 - chunk);
  wait_copies_3();
  // barrier();
  __syncthreads();
  // for (let k = 0; k < DEPTH; k += 4 * WK)
  #pragma unroll
  for (int k = 0; k < 196; k += 32) {
    // if (k + 4 * WK <= DEPTH || share * 4 + k < DEPTH) quad(stage, share * 4 + k);
    if (wrap_add(k, 32) <= 196 || wrap_add(wrap_mul(share, 4), k) < 196) {
      const int k_1 = share * 4 + k;
      // const atA = stage * STAGE + aAt;
      const int atA = 0 + aAt;
      // const atB = stage * STAGE + bAt;
      const int atB = 0 + bAt;
      // for (let i = 0; i < P.share.each; i++) {
      #pragma unroll
      for (int i = 0; i < 1; i++) {
        // const v = load4(held, at + i * (P.share.lanes * P.pitch) + k);
        const f32x4 v = *reinterpret_cast<f32x4*>(&held[atA + i * 1632 + k_1]);
        // for (let s = 0; s < 4; s++) into[i][s] = lane(v, s);
        from[i][0] = v.x;
        from[i][1] = v.y;
        from[i][2] = v.z;
        from[i][3] = v.w;
      }
      // for (let i = 0; i < P.share.each; i++) {
      #pragma unroll
      for (int i = 0; i < 2; i++) {
        // const v = load4(held, at + i * (P.share.lanes * P.pitch) + k);
        const f32x4 v = *reinterpret_cast<f32x4*>(&held[atB + i * 816 + k_1]);
        // for (let s = 0; s < 4; s++) into[i][s] = lane(v, s);
        by[i][0] = v.x;
        by[i][1] = v.y;
        by[i][2] = v.z;
        by[i][3] = v.w;
      }
      // for (let l = 0; l < 4; l++) {
      #pragma unroll
      for (int l = 0; l < 4; l++) {
        // for (let i = 0; i < TM; i++)
        #pragma unroll
        for (int i = 0; i < 1; i++) {
          // for (let j = 0; j < TN; j++) sums[i][j] = fma(from[i][l], by[j][l], sums[i][j]);
          #pragma unroll
          for (int j = 0; j < 2; j++) {
            sums[i][j] = fmaf(from[i][l], by[j][l], sums[i][j]);
          }
        }
      }
    }
  }
  // waitCopies(CHUNKS - 1 - chunk);
  wait_copies_2();
  // barrier();
  __syncthreads();
  // for (let k = 0; k < DEPTH; k += 4 * WK)
  #pragma unroll
  for (int k = 0; k < 196; k += 32) {
    // if (k + 4 * WK <= DEPTH || share * 4 + k < DEPTH) quad(stage, share * 4 + k);
    if (wrap_add(k, 32) <= 196 || wrap_add(wrap_mul(share, 4), k) < 196) {
      const int k_1 = share * 4 + k;
      // const atA = stage * STAGE + aAt;
      const int atA = 3264 + aAt;
      // const atB = stage * STAGE + bAt;
      const int atB = 3264 + bAt;
      // for (let i = 0; i < P.share.each; i++) {
      #pragma unroll
      for (int i = 0; i < 1; i++) {
        // const v = load4(held, at + i * (P.share.lanes * P.pitch) + k);
        const f32x4 v = *reinterpret_cast<f32x4*>(&held[atA + i * 1632 + k_1]);
        // for (let s = 0; s < 4; s++) into[i][s] = lane(v, s);
        from[i][0] = v.x;
        from[i][1] = v.y;
        from[i][2] = v.z;
        from[i][3] = v.w;
      }
      // for (let i = 0; i < P.share.each; i++) {
      #pragma unroll
      for (int i = 0; i < 2; i++) {
        // const v = load4(held, at + i * (P.share.lanes * P.pitch) + k);
        const f32x4 v = *reinterpret_cast<f32x4*>(&held[atB + i * 816 + k_1]);
        // for (let s = 0; s < 4; s++) into[i][s] = lane(v, s);
        by[i][0] = v.x;
        by[i][1] = v.y;
        by[i][2] = v.z;
        by[i][3] = v.w;
      }
      // for (let l = 0; l < 4; l++) {
      #pragma unroll
      for (int l = 0; l < 4; l++) {
        // for (let i = 0; i < TM; i++)
        #pragma unroll
        for (int i = 0; i < 1; i++) {
          // for (let j = 0; j < TN; j++) sums[i][j] = fma(from[i][l], by[j][l], sums[i][j]);
          #pragma unroll
          for (int j = 0; j < 2; j++) {
            sums[i][j] = fmaf(from[i][l], by[j][l], sums[i][j]);
          }
        }
      }
    }
  }
  // waitCopies(CHUNKS - 1 - chunk);
  wait_copies_1();
  // barrier();
  __syncthreads();
  // for (let k = 0; k < DEPTH; k += 4 * WK)
  #pragma unroll
  for (int k = 0; k < 196; k += 32) {
    // if (k + 4 * WK <= DEPTH || share * 4 + k < DEPTH) quad(stage, share * 4 + k);
    if (wrap_add(k, 32) <= 196 || wrap_add(wrap_mul(share, 4), k) < 196) {
      const int k_1 = share * 4 + k;
      // const atA = stage * STAGE + aAt;
      const int atA = 6528 + aAt;
      // const atB = stage * STAGE + bAt;
      const int atB = 6528 + bAt;
      // for (let i = 0; i < P.share.each; i++) {
      #pragma unroll
      for (int i = 0; i < 1; i++) {
        // const v = load4(held, at + i * (P.share.lanes * P.pitch) + k);
        const f32x4 v = *reinterpret_cast<f32x4*>(&held[atA + i * 1632 + k_1]);
        // for (let s = 0; s < 4; s++) into[i][s] = lane(v, s);
        from[i][0] = v.x;
        from[i][1] = v.y;
        from[i][2] = v.z;
        from[i][3] = v.w;
      }
      // for (let i = 0; i < P.share.each; i++) {
      #pragma unroll
      for (int i = 0; i < 2; i++) {
        // const v = load4(held, at + i * (P.share.lanes * P.pitch) + k);
        const f32x4 v = *reinterpret_cast<f32x4*>(&held[atB + i * 816 + k_1]);
        // for (let s = 0; s < 4; s++) into[i][s] = lane(v, s);
        by[i][0] = v.x;
        by[i][1] = v.y;
        by[i][2] = v.z;
        by[i][3] = v.w;
      }
      // for (let l = 0; l < 4; l++) {
      #pragma unroll
      for (int l = 0; l < 4; l++) {
        // for (let i = 0; i < TM; i++)
        #pragma unroll
        for (int i = 0; i < 1; i++) {
          // for (let j = 0; j < TN; j++) sums[i][j] = fma(from[i][l], by[j][l], sums[i][j]);
          #pragma unroll
          for (int j = 0; j < 2; j++) {
            sums[i][j] = fmaf(from[i][l], by[j][l], sums[i][j]);
          }
        }
      }
    }
  }
  // waitCopies(CHUNKS - 1 - chunk);
  wait_copies_0();
  // barrier();
  __syncthreads();
  // for (let k = 0; k < DEPTH; k += 4 * WK)
  #pragma unroll
  for (int k = 0; k < 196; k += 32) {
    // if (k + 4 * WK <= DEPTH || share * 4 + k < DEPTH) quad(stage, share * 4 + k);
    if (wrap_add(k, 32) <= 196 || wrap_add(wrap_mul(share, 4), k) < 196) {
      const int k_1 = share * 4 + k;
      // const atA = stage * STAGE + aAt;
      const int atA = 9792 + aAt;
      // const atB = stage * STAGE + bAt;
      const int atB = 9792 + bAt;
      // for (let i = 0; i < P.share.each; i++) {
      #pragma unroll
      for (int i = 0; i < 1; i++) {
        // const v = load4(held, at + i * (P.share.lanes * P.pitch) + k);
        const f32x4 v = *reinterpret_cast<f32x4*>(&held[atA + i * 1632 + k_1]);
        // for (let s = 0; s < 4; s++) into[i][s] = lane(v, s);
        from[i][0] = v.x;
        from[i][1] = v.y;
        from[i][2] = v.z;
        from[i][3] = v.w;
      }
      // for (let i = 0; i < P.share.each; i++) {
      #pragma unroll
      for (int i = 0; i < 2; i++) {
        // const v = load4(held, at + i * (P.share.lanes * P.pitch) + k);
        const f32x4 v = *reinterpret_cast<f32x4*>(&held[atB + i * 816 + k_1]);
        // for (let s = 0; s < 4; s++) into[i][s] = lane(v, s);
        by[i][0] = v.x;
        by[i][1] = v.y;
        by[i][2] = v.z;
        by[i][3] = v.w;
      }
      // for (let l = 0; l < 4; l++) {
      #pragma unroll
      for (int l = 0; l < 4; l++) {
        // for (let i = 0; i < TM; i++)
        #pragma unroll
        for (int i = 0; i < 1; i++) {
          // for (let j = 0; j < TN; j++) sums[i][j] = fma(from[i][l], by[j][l], sums[i][j]);
          #pragma unroll
          for (int j = 0; j < 2; j++) {
            sums[i][j] = fmaf(from[i][l], by[j][l], sums[i][j]);
          }
        }
      }
    }
  }
  // barrier();
  __syncthreads();
  // for (let i = 0; i < TM; i++) {
  #pragma unroll
  for (int i = 0; i < 1; i++) {
    // const r = warpRow + idiv(i, A.group) * (LM * A.group) + laneRow * A.group + (i % A.group);
    const int r = warpRow + i / 1 * 8 + laneRow * 1 + i % 1;
    // for (let j = 0; j < TN; j += B.group) {
    #pragma unroll
    for (int j = 0; j < 2; j += 2) {
      // const n = warpColumn + j * LN + laneColumn * B.group;
      const int n = warpColumn + j * 4 + laneColumn * 2;
      // const at = (share * ROWS + r) * COLUMNS + n;
      const int at = (share * 8 + r) * 8 + n;
      // else if (B.group === 2) store2(held, at, vec2(sums[i][j], sums[i][j + 1]));
      *reinterpret_cast<f32x2*>(&held[at]) = f32x2{sums[i][j], sums[i][j + 1]};
    }
  }
  // barrier();
  __syncthreads();
  // for (let first = 0; first < ROWS * COLUMNS; first += THREADS * OUT) {
  #pragma unroll
  for (int first = 0; first < 64; first += 256) {
    // const i = first + mine;
    const int i = first + mine;
    // const r = row + idiv(i, COLUMNS);
    const int r = wrap_add(row, i / 8);
    // const n = column + (i % COLUMNS);
    const int n = wrap_add(column, i % 8);
    // if ((first + THREADS * OUT <= ROWS * COLUMNS || i < ROWS * COLUMNS) && r < M && n < N) {
    if ((wrap_add(first, 256) <= 64 || i < 64) && r < 64 && n < 128) {
      // const at = w * (ROWS * COLUMNS) + i;
      const int at = 0 + i;
      // let total = part(0);
      float total = held[at];
      // for (let w = 1; w < WK; w++) total += part(w);
      #pragma unroll
      for (int w = 1; w < 8; w++) {
        const float t = total;
        // const at = w * (ROWS * COLUMNS) + i;
        const int at_1 = w * 64 + i;
        // for (let w = 1; w < WK; w++) total += part(w);
        total = t + held[at_1];
      }
      // if (OWN) done(piece, total, ownRow, ownColumn, OUT);
      const float v = total;
      // } else put((batch * M + r) * N + n, finish(v, batch, r, n), lanes);
      const int at_1 = (0 + ownRow) * 128 + ownColumn;
      // else c[at] = v;
      c[at_1] = v;
    }
  }
}
