__device__ inline int index_below(unsigned i, unsigned end) { __builtin_assume(i < end); return i; }
__device__ inline int warp_id() { return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32u; }
__device__ inline int lane_id() { unsigned id; asm("mov.u32 %0, %%laneid;" : "=r"(id)); __builtin_assume(id < 32); return id; }
__device__ inline int wrap_mul(int a, int b) { return (int)((unsigned int)a * (unsigned int)b); }
__device__ inline int wrap_add(int a, int b) { return (int)((unsigned int)a + (unsigned int)b); }
__device__ inline void copy_async_16(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;"
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
  // const tile = sizes.batches === 1 ? blockIdx.x : blockIdx.x % (down * across);
  const int tile = index_below(blockIdx.x, 0x7fffffff);
  // const inBand = tiles.band === down ? tile : tile % (tiles.band * across);
  const int inBand = tile;
  // const row = (band + (inBand % high)) * rows;
  const int row = (0 + inBand % 8) * 8;
  // const column = idiv(inBand, high) * columns;
  const int column = inBand / 8 * 8;
  // const split = blockIdx.y;
  const int split = index_below(blockIdx.y, 65535);
  // const share = warps.K === 1 ? 0 : idiv(warpId, warps.M * warps.N);
  const int share = warp_id() / 1;
  // const warpRow = idiv(warps.K === 1 ? warpId : warpId % (warps.M * warps.N), warps.N) * (rows / warps.M);
  const int warpRow = warp_id() % 1 / 1 * 8;
  // const warpColumn = (warpId % warps.N) * (columns / warps.N);
  const int warpColumn = warp_id() % 1 * 8;
  // const row = idiv(laneId, tile.lanes[1]);
  const int row_1 = lane_id() / 4;
  // const column = laneId % tile.lanes[1];
  const int column_1 = lane_id() % 4;
  // const fromAt = startOfLane(at.warpRow, row, work.a);
  const int fromAt = (warpRow + row_1) * 204;
  // const byAt = work.a.elements + startOfLane(at.warpColumn, column, work.b);
  const int byAt = 1632 + (warpColumn + column_1) * 204;
  // const mine = threadIdx.x * lanes;
  const int mine = wrap_mul(index_below(threadIdx.x, 1024), 1);
  // const down = idiv(mine, tiles.columns);
  const int down = mine / 8;
  // const inTile = threads * lanes > tiles.rows * tiles.columns ? Math.min(down, tiles.rows - 1) : down;
  const int inTile = min(down, 7);
  // const row = Math.min(at.row + inTile, sizes.M - 1);
  const int row_2 = min(wrap_add(row, inTile), 63);
  // const inside = at.column + (mine % tiles.columns);
  const int inside = column + mine % 8;
  // const column = sizes.N % tiles.columns === 0 ? inside : Math.min(inside, sizes.N - 1);
  const int column_2 = inside;
  // for (let i = 0; i < tile.each[0]; i++) for (let j = 0; j < tile.each[1]; j++) sums[i][j] = 0;
  #pragma unroll
  for (int i = 0; i < 1; i++) {
    #pragma unroll
    for (int j = 0; j < 2; j++) {
      sums[i][j] = 0.0f;
    }
  }
  // for (let chunk = 0; chunk < chunks; chunk++) fetch(chunk, chunk);
  #pragma unroll
  for (int chunk = 0; chunk < 4; chunk++) {
    // const step = ((pieces === 1 ? at.split : at.split * pieces + piece) * chunks + chunk) * depth;
    const int step = (split * 4 + chunk) * 196;
    // const to = stage * stages.elements;
    const int to = chunk * 3264;
    // const firstRow = P.perRow === 1 ? atRow : idiv(atRow, P.perRow);
    const int firstRow = row;
    // const firstStep = P.perStep === 1 ? atStep : idiv(atStep, P.perStep);
    const int firstStep = step;
    // const slot = idiv(threadIdx.x, beside);
    const int slot = index_below(threadIdx.x, 1024) / 32;
    // const warp = idiv(slot, lanes * each);
    const int warp = slot / 8;
    // const inWarp = slot % (lanes * each);
    const int inWarp = slot % 8;
    // return warp * (lanes * each) + rowOfLane(idiv(inWarp, lanes), inWarp % lanes, P, context);
    const int i = inWarp / 8;
    const int lane = inWarp % 8;
    // const row = firstRow + rowOfSlot(slot, P, context);
    const int row_3 = firstRow + (warp * 8 + (i / 1 * 8 + lane * 1 + i % 1));
    // const to = at + slot * P.pitch;
    const int to_1 = to + slot * 204;
    // const from = start + row * P.rowStep + firstStep * P.innerStep;
    const int from_1 = 0 + row_3 * 784 + firstStep * 1;
    // for (let i = 0; i < count; i += beside) {
    #pragma unroll
    for (int i_1 = 0; i_1 < 49; i_1 += 32) {
      // const along = ((threadIdx.x % beside) + i) * P.vector;
      const int along = (index_below(threadIdx.x, 1024) % 32 + i_1) * 4;
      // if (i + beside <= count || along < P.depth)
      if (wrap_add(i_1, 32) <= 49 || along < 196) {
        // copy(to + along, from + along * P.innerStep, row, firstStep + along);
        const int to_2 = to_1 + along;
        const int from_2 = from_1 + along * 1;
        const int step_1 = wrap_add(firstStep, along);
        // else if (P.vector === 4) copyAsync4(held, to, x, from);
        copy_async_16(&held[to_2], a + from_2);
      }
    }
    // copyPanel(b, at.right, held, to + work.a.elements, at.column, step, inside, work.b, context);
    const int at = to + 1632;
    // const firstRow = P.perRow === 1 ? atRow : idiv(atRow, P.perRow);
    const int firstRow_1 = column;
    // const firstStep = P.perStep === 1 ? atStep : idiv(atStep, P.perStep);
    const int firstStep_1 = step;
    // const slot = idiv(threadIdx.x, beside);
    const int slot_1 = index_below(threadIdx.x, 1024) / 32;
    // const warp = idiv(slot, lanes * each);
    const int warp_1 = slot_1 / 8;
    // const inWarp = slot % (lanes * each);
    const int inWarp_1 = slot_1 % 8;
    // return warp * (lanes * each) + rowOfLane(idiv(inWarp, lanes), inWarp % lanes, P, context);
    const int i_1 = inWarp_1 / 4;
    const int lane_1 = inWarp_1 % 4;
    // const row = firstRow + rowOfSlot(slot, P, context);
    const int row_4 = firstRow_1 + (warp_1 * 8 + (i_1 / 2 * 8 + lane_1 * 2 + i_1 % 2));
    // const to = at + slot * P.pitch;
    const int to_2 = at + slot_1 * 204;
    // const from = start + row * P.rowStep + firstStep * P.innerStep;
    const int from_2 = 0 + row_4 * 784 + firstStep_1 * 1;
    // for (let i = 0; i < count; i += beside) {
    #pragma unroll
    for (int i_2 = 0; i_2 < 49; i_2 += 32) {
      // const along = ((threadIdx.x % beside) + i) * P.vector;
      const int along = (index_below(threadIdx.x, 1024) % 32 + i_2) * 4;
      // if (i + beside <= count || along < P.depth)
      if (wrap_add(i_2, 32) <= 49 || along < 196) {
        // copy(to + along, from + along * P.innerStep, row, firstStep + along);
        const int to_3 = to_2 + along;
        const int from_3 = from_2 + along * 1;
        const int step_1 = wrap_add(firstStep_1, along);
        // else if (P.vector === 4) copyAsync4(held, to, x, from);
        copy_async_16(&held[to_3], b + from_3);
      }
    }
    // commitCopies();
    commit_copies();
  }
  // waitCopies(chunks - 1 - chunk);
  wait_copies_3();
  // barrier();
  __syncthreads();
  // for (let k = 0; k < depth; k += next)
  #pragma unroll
  for (int k = 0; k < 196; k += 32) {
    // if (k + next <= depth || share * 4 + k < depth)
    if (wrap_add(k, 32) <= 196 || wrap_add(wrap_mul(share, 4), k) < 196) {
      // multiplyQuad(thread, held, stage, share * 4 + k, context);
      const int k_1 = share * 4 + k;
      // const fromAt = stage * stages.elements + thread.fromAt;
      const int fromAt_1 = 0 + fromAt;
      // const byAt = stage * stages.elements + thread.byAt;
      const int byAt_1 = 0 + byAt;
      // for (let i = 0; i < P.share.each; i++) {
      #pragma unroll
      for (int i = 0; i < 1; i++) {
        // const v = load4(held, at + i * (P.share.lanes * P.pitch) + k);
        const f32x4 v = *reinterpret_cast<f32x4*>(&held[fromAt_1 + i * 1632 + k_1]);
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
        const f32x4 v = *reinterpret_cast<f32x4*>(&held[byAt_1 + i * 816 + k_1]);
        // for (let s = 0; s < 4; s++) into[i][s] = lane(v, s);
        by[i][0] = v.x;
        by[i][1] = v.y;
        by[i][2] = v.z;
        by[i][3] = v.w;
      }
      // for (let l = 0; l < 4; l++) {
      #pragma unroll
      for (int l = 0; l < 4; l++) {
        // for (let i = 0; i < tile.each[0]; i++)
        #pragma unroll
        for (int i = 0; i < 1; i++) {
          // for (let j = 0; j < tile.each[1]; j++) sums[i][j] = fma(from[i][l], by[j][l], sums[i][j]);
          #pragma unroll
          for (int j = 0; j < 2; j++) {
            sums[i][j] = fmaf(from[i][l], by[j][l], sums[i][j]);
          }
        }
      }
    }
  }
  // waitCopies(chunks - 1 - chunk);
  wait_copies_2();
  // barrier();
  __syncthreads();
  // for (let k = 0; k < depth; k += next)
  #pragma unroll
  for (int k = 0; k < 196; k += 32) {
    // if (k + next <= depth || share * 4 + k < depth)
    if (wrap_add(k, 32) <= 196 || wrap_add(wrap_mul(share, 4), k) < 196) {
      // multiplyQuad(thread, held, stage, share * 4 + k, context);
      const int k_1 = share * 4 + k;
      // const fromAt = stage * stages.elements + thread.fromAt;
      const int fromAt_1 = 3264 + fromAt;
      // const byAt = stage * stages.elements + thread.byAt;
      const int byAt_1 = 3264 + byAt;
      // for (let i = 0; i < P.share.each; i++) {
      #pragma unroll
      for (int i = 0; i < 1; i++) {
        // const v = load4(held, at + i * (P.share.lanes * P.pitch) + k);
        const f32x4 v = *reinterpret_cast<f32x4*>(&held[fromAt_1 + i * 1632 + k_1]);
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
        const f32x4 v = *reinterpret_cast<f32x4*>(&held[byAt_1 + i * 816 + k_1]);
        // for (let s = 0; s < 4; s++) into[i][s] = lane(v, s);
        by[i][0] = v.x;
        by[i][1] = v.y;
        by[i][2] = v.z;
        by[i][3] = v.w;
      }
      // for (let l = 0; l < 4; l++) {
      #pragma unroll
      for (int l = 0; l < 4; l++) {
        // for (let i = 0; i < tile.each[0]; i++)
        #pragma unroll
        for (int i = 0; i < 1; i++) {
          // for (let j = 0; j < tile.each[1]; j++) sums[i][j] = fma(from[i][l], by[j][l], sums[i][j]);
          #pragma unroll
          for (int j = 0; j < 2; j++) {
            sums[i][j] = fmaf(from[i][l], by[j][l], sums[i][j]);
          }
        }
      }
    }
  }
  // waitCopies(chunks - 1 - chunk);
  wait_copies_1();
  // barrier();
  __syncthreads();
  // for (let k = 0; k < depth; k += next)
  #pragma unroll
  for (int k = 0; k < 196; k += 32) {
    // if (k + next <= depth || share * 4 + k < depth)
    if (wrap_add(k, 32) <= 196 || wrap_add(wrap_mul(share, 4), k) < 196) {
      // multiplyQuad(thread, held, stage, share * 4 + k, context);
      const int k_1 = share * 4 + k;
      // const fromAt = stage * stages.elements + thread.fromAt;
      const int fromAt_1 = 6528 + fromAt;
      // const byAt = stage * stages.elements + thread.byAt;
      const int byAt_1 = 6528 + byAt;
      // for (let i = 0; i < P.share.each; i++) {
      #pragma unroll
      for (int i = 0; i < 1; i++) {
        // const v = load4(held, at + i * (P.share.lanes * P.pitch) + k);
        const f32x4 v = *reinterpret_cast<f32x4*>(&held[fromAt_1 + i * 1632 + k_1]);
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
        const f32x4 v = *reinterpret_cast<f32x4*>(&held[byAt_1 + i * 816 + k_1]);
        // for (let s = 0; s < 4; s++) into[i][s] = lane(v, s);
        by[i][0] = v.x;
        by[i][1] = v.y;
        by[i][2] = v.z;
        by[i][3] = v.w;
      }
      // for (let l = 0; l < 4; l++) {
      #pragma unroll
      for (int l = 0; l < 4; l++) {
        // for (let i = 0; i < tile.each[0]; i++)
        #pragma unroll
        for (int i = 0; i < 1; i++) {
          // for (let j = 0; j < tile.each[1]; j++) sums[i][j] = fma(from[i][l], by[j][l], sums[i][j]);
          #pragma unroll
          for (int j = 0; j < 2; j++) {
            sums[i][j] = fmaf(from[i][l], by[j][l], sums[i][j]);
          }
        }
      }
    }
  }
  // waitCopies(chunks - 1 - chunk);
  wait_copies_0();
  // barrier();
  __syncthreads();
  // for (let k = 0; k < depth; k += next)
  #pragma unroll
  for (int k = 0; k < 196; k += 32) {
    // if (k + next <= depth || share * 4 + k < depth)
    if (wrap_add(k, 32) <= 196 || wrap_add(wrap_mul(share, 4), k) < 196) {
      // multiplyQuad(thread, held, stage, share * 4 + k, context);
      const int k_1 = share * 4 + k;
      // const fromAt = stage * stages.elements + thread.fromAt;
      const int fromAt_1 = 9792 + fromAt;
      // const byAt = stage * stages.elements + thread.byAt;
      const int byAt_1 = 9792 + byAt;
      // for (let i = 0; i < P.share.each; i++) {
      #pragma unroll
      for (int i = 0; i < 1; i++) {
        // const v = load4(held, at + i * (P.share.lanes * P.pitch) + k);
        const f32x4 v = *reinterpret_cast<f32x4*>(&held[fromAt_1 + i * 1632 + k_1]);
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
        const f32x4 v = *reinterpret_cast<f32x4*>(&held[byAt_1 + i * 816 + k_1]);
        // for (let s = 0; s < 4; s++) into[i][s] = lane(v, s);
        by[i][0] = v.x;
        by[i][1] = v.y;
        by[i][2] = v.z;
        by[i][3] = v.w;
      }
      // for (let l = 0; l < 4; l++) {
      #pragma unroll
      for (int l = 0; l < 4; l++) {
        // for (let i = 0; i < tile.each[0]; i++)
        #pragma unroll
        for (int i = 0; i < 1; i++) {
          // for (let j = 0; j < tile.each[1]; j++) sums[i][j] = fma(from[i][l], by[j][l], sums[i][j]);
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
  // for (let i = 0; i < tile.each[0]; i++) {
  #pragma unroll
  for (int i = 0; i < 1; i++) {
    // const row = at.share * tiles.rows + at.warpRow + rowOfLane(i, thread.row, a, context);
    const int row_3 = share * 8 + warpRow + (i / 1 * 8 + row_1 * 1 + i % 1);
    // for (let j = 0; j < tile.each[1]; j += b.group) {
    #pragma unroll
    for (int j = 0; j < 2; j += 2) {
      // const column = at.warpColumn + rowOfLane(j, thread.column, b, context);
      const int column_3 = warpColumn + (j / 2 * 8 + column_1 * 2 + j % 2);
      // const v = lanesFrom(thread.sums, i, j, b.group, context);
      const f32x2 v = f32x2{sums[i][j], sums[i][j + 1]};
      // storeLanes(held, row * tiles.columns + column, v, b.group, context);
      const int at = row_3 * 8 + column_3;
      // else if (lanes === 2) store2(x, at, v);
      *reinterpret_cast<f32x2*>(&held[at]) = v;
    }
  }
  // barrier();
  __syncthreads();
  // for (let first = 0; first < rows * columns; first += threads * lanes) {
  #pragma unroll
  for (int first = 0; first < 64; first += 256) {
    // const i = first + threadIdx.x * lanes;
    const int i = first + index_below(threadIdx.x, 1024) * 1;
    // const row = at.row + idiv(i, columns);
    const int row_3 = wrap_add(row, i / 8);
    // const column = at.column + (i % columns);
    const int column_3 = wrap_add(column, i % 8);
    // const inTile = first + threads * lanes <= rows * columns || i < rows * columns;
    const bool inTile_1 = wrap_add(first, 256) <= 64 || i < 64;
    // if (inTile && row < sizes.M && column < sizes.N) {
    if (inTile_1 && row_3 < 64 && column_3 < 128) {
      // const from =
      const int from_1 = 0 + i;
      // let total = share(0);
      float total = held[from_1];
      // for (let w = 1; w < warps.K; w++) total += share(w);
      #pragma unroll
      for (int w = 1; w < 8; w++) {
        const float t = total;
        // const from =
        const int from_2 = w * 64 + i;
        // for (let w = 1; w < warps.K; w++) total += share(w);
        total = t + held[from_2];
      }
      // store(total, row, column);
      const float v = total;
      // const to = ((work.inParts ? split * batches + batch : batch) * M + row) * N + column;
      const int to = (0 + row_2) * 128 + column_2;
      // if (row < M && column < N) {
      if (row_2 < 64 && column_2 < 128) {
        // else x[at] = v;
        c[to] = v;
      }
    }
  }
}
