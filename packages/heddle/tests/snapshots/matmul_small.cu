__device__ inline int warp_id() { return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32u; }
__device__ inline int lane_id() { int id; asm("mov.u32 %0, %%laneid;" : "=r"(id)); return id; }
__device__ inline void copy_async_16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
    :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)) : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ inline void wait_copies_3() { asm volatile("cp.async.wait_group 3;" ::: "memory"); }
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
  alignas(16) float total[2];
  // const row = (blockIdx.x % DOWN) * ROWS;
  const int row = int(blockIdx.x) % 8 * 8;
  // const column = idiv(blockIdx.x, DOWN) * COLUMNS;
  const int column = int(blockIdx.x) / 8 * 8;
  // const split = blockIdx.y;
  const int split = int(blockIdx.y);
  // const batch = blockIdx.z;
  const int batch = int(blockIdx.z);
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
  // for (let chunk = 0; chunk < CHUNKS; chunk++) copy(chunk, chunk);
  #pragma unroll
  for (int chunk = 0; chunk < 4; chunk++) {
    // const step = (split * CHUNKS + chunk) * DEPTH;
    const int step = (split * 4 + chunk) * 196;
    // copyPanel(a, left, held, stage * STAGE, row, step, A, context);
    const int at = chunk * 3264;
    // for (let i = threadIdx.x; i < total; i += THREADS) {
    for (int i = int(threadIdx.x); i < 392; i += 256) {
      // const outer = idiv(i, count);
      const int outer = i / 49;
      // const along = (i % count) * P.vector;
      const int along = i % 49 * 4;
      // const warp = idiv(slot, P.share.lanes * P.share.each);
      const int warp = outer / 8;
      // const rest = slot % (P.share.lanes * P.share.each);
      const int rest = outer % 8;
      // const i = idiv(rest, P.share.lanes);
      const int i_1 = rest / 8;
      // const lane = rest % P.share.lanes;
      const int lane = rest % 8;
      // const row = firstRow + (P.kMajor ? rowOfSlot(outer, P, context) : along);
      const int row_1 = row + (warp * 8 + i_1 / 1 * 8 + lane * 1 + i_1 % 1);
      // const step = firstStep + (P.kMajor ? along : outer);
      const int step_1 = step + along;
      // const from = start + row * P.rowStep + step * P.innerStep;
      const int from_1 = 0 + row_1 * 784 + step_1 * 1;
      // copyPiece(held, at + outer * P.pitch + along, x, from, row, step, P, context);
      const int to = at + outer * 204 + along;
      // if (P.vector === 4) copyAsync4(held, to, x, from);
      copy_async_16(&held[to], a + from_1);
    }
    // copyPanel(b, right, held, stage * STAGE + A.floats, column, step, B, context);
    const int at_1 = chunk * 3264 + 1632;
    // for (let i = threadIdx.x; i < total; i += THREADS) {
    for (int i = int(threadIdx.x); i < 392; i += 256) {
      // const outer = idiv(i, count);
      const int outer = i / 49;
      // const along = (i % count) * P.vector;
      const int along = i % 49 * 4;
      // const warp = idiv(slot, P.share.lanes * P.share.each);
      const int warp = outer / 8;
      // const rest = slot % (P.share.lanes * P.share.each);
      const int rest = outer % 8;
      // const i = idiv(rest, P.share.lanes);
      const int i_1 = rest / 4;
      // const lane = rest % P.share.lanes;
      const int lane = rest % 4;
      // const row = firstRow + (P.kMajor ? rowOfSlot(outer, P, context) : along);
      const int row_1 = column + (warp * 8 + i_1 / 2 * 8 + lane * 2 + i_1 % 2);
      // const step = firstStep + (P.kMajor ? along : outer);
      const int step_1 = step + along;
      // const from = start + row * P.rowStep + step * P.innerStep;
      const int from_1 = 0 + row_1 * 784 + step_1 * 1;
      // copyPiece(held, at + outer * P.pitch + along, x, from, row, step, P, context);
      const int to = at_1 + outer * 204 + along;
      // if (P.vector === 4) copyAsync4(held, to, x, from);
      copy_async_16(&held[to], b + from_1);
    }
    // commitCopies();
    commit_copies();
  }
  // waitCopies(CHUNKS - 1 - chunk);
  wait_copies_3();
  // barrier();
  __syncthreads();
  // let k = share * 4;
  int k = share * 4;
  // while (k < DEPTH) {
  while (k < 196) {
    // quad(stage, k);
    const int k_1 = k;
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
    // k += 4 * WK;
    k = k + 32;
  }
  // waitCopies(CHUNKS - 1 - chunk);
  wait_copies_2();
  // barrier();
  __syncthreads();
  // let k = share * 4;
  int k_1 = share * 4;
  // while (k < DEPTH) {
  while (k_1 < 196) {
    // quad(stage, k);
    const int k_2 = k_1;
    // const atA = stage * STAGE + aAt;
    const int atA = 3264 + aAt;
    // const atB = stage * STAGE + bAt;
    const int atB = 3264 + bAt;
    // for (let i = 0; i < P.share.each; i++) {
    #pragma unroll
    for (int i = 0; i < 1; i++) {
      // const v = load4(held, at + i * (P.share.lanes * P.pitch) + k);
      const f32x4 v = *reinterpret_cast<f32x4*>(&held[atA + i * 1632 + k_2]);
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
      const f32x4 v = *reinterpret_cast<f32x4*>(&held[atB + i * 816 + k_2]);
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
    // k += 4 * WK;
    k_1 = k_1 + 32;
  }
  // waitCopies(CHUNKS - 1 - chunk);
  wait_copies_1();
  // barrier();
  __syncthreads();
  // let k = share * 4;
  int k_2 = share * 4;
  // while (k < DEPTH) {
  while (k_2 < 196) {
    // quad(stage, k);
    const int k_3 = k_2;
    // const atA = stage * STAGE + aAt;
    const int atA = 6528 + aAt;
    // const atB = stage * STAGE + bAt;
    const int atB = 6528 + bAt;
    // for (let i = 0; i < P.share.each; i++) {
    #pragma unroll
    for (int i = 0; i < 1; i++) {
      // const v = load4(held, at + i * (P.share.lanes * P.pitch) + k);
      const f32x4 v = *reinterpret_cast<f32x4*>(&held[atA + i * 1632 + k_3]);
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
      const f32x4 v = *reinterpret_cast<f32x4*>(&held[atB + i * 816 + k_3]);
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
    // k += 4 * WK;
    k_2 = k_2 + 32;
  }
  // waitCopies(CHUNKS - 1 - chunk);
  wait_copies_0();
  // barrier();
  __syncthreads();
  // let k = share * 4;
  int k_3 = share * 4;
  // while (k < DEPTH) {
  while (k_3 < 196) {
    // quad(stage, k);
    const int k_4 = k_3;
    // const atA = stage * STAGE + aAt;
    const int atA = 9792 + aAt;
    // const atB = stage * STAGE + bAt;
    const int atB = 9792 + bAt;
    // for (let i = 0; i < P.share.each; i++) {
    #pragma unroll
    for (int i = 0; i < 1; i++) {
      // const v = load4(held, at + i * (P.share.lanes * P.pitch) + k);
      const f32x4 v = *reinterpret_cast<f32x4*>(&held[atA + i * 1632 + k_4]);
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
      const f32x4 v = *reinterpret_cast<f32x4*>(&held[atB + i * 816 + k_4]);
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
    // k += 4 * WK;
    k_3 = k_3 + 32;
  }
  // barrier();
  __syncthreads();
  // for (let i = 0; i < TM; i++) {
  #pragma unroll
  for (int i = 0; i < 1; i++) {
    // const r = warpRow + idiv(i, A.group) * (LM * A.group) + laneRow * A.group + (i % A.group);
    const int r = warpRow + i / 1 * 8 + laneRow * 1 + i % 1;
    // for (let j = 0; j < TN; j++) {
    #pragma unroll
    for (int j = 0; j < 2; j++) {
      // const n = warpColumn + idiv(j, B.group) * (LN * B.group) + laneColumn * B.group + (j % B.group);
      const int n = warpColumn + j / 2 * 8 + laneColumn * 2 + j % 2;
      // held[(share * ROWS + r) * COLUMNS + n] = sums[i][j];
      held[(share * 8 + r) * 8 + n] = sums[i][j];
    }
  }
  // barrier();
  __syncthreads();
  // for (let i = threadIdx.x * OUT; i < ROWS * COLUMNS; i += THREADS * OUT) {
  for (int i = int(threadIdx.x) * 2; i < 64; i += 512) {
    // const r = row + idiv(i, COLUMNS);
    const int r = row + i / 8;
    // const n = column + (i % COLUMNS);
    const int n = column + i % 8;
    // if (r < M && n < N) {
    if (r < 64 && n < 128) {
      // for (let g = 0; g < OUT; g++) {
      #pragma unroll
      for (int g = 0; g < 2; g++) {
        // total[g] = held[i + g];
        total[g] = held[i + g];
        // for (let w = 1; w < WK; w++) total[g] += held[w * (ROWS * COLUMNS) + i + g];
        #pragma unroll
        for (int w = 1; w < 8; w++) {
          total[g] = total[g] + held[w * 64 + i + g];
        }
      }
      // else if (OUT === 2) done(vec2(total[0], total[1]), r, n, 2);
      const f32x2 v = f32x2{total[0], total[1]};
      // else put((batch * M + r) * N + n, finish(v, batch, r, n), lanes);
      const int at = (batch * 64 + r) * 128 + n;
      // else if (lanes === 2) store2(c, at, v);
      *reinterpret_cast<f32x2*>(c + at) = v;
    }
  }
}
