typedef unsigned short bf16;  // the upper 16 bits of a float
__device__ inline int index_below(unsigned i, unsigned end) { __builtin_assume(i < end); return i; }
__device__ inline int wrap_add(int a, int b) { return (int)((unsigned int)a + (unsigned int)b); }
__device__ inline int wrap_mul(int a, int b) { return (int)((unsigned int)a * (unsigned int)b); }
__device__ inline float round_bf16(float f) { unsigned both; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(f), "f"(0.0f)); return __uint_as_float(both); }
__device__ inline float bf16_to_float(bf16 bits) { return __uint_as_float((unsigned)bits << 16); }
__device__ inline bf16 float_to_bf16(float f) { unsigned both; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(0.0f), "f"(f)); return (bf16)both; }

extern "C" __global__ void conv2dDepthwiseLast_conv2dChannelsLast_last_2_0(const bf16* x, const bf16* w, bf16* y) {
  __shared__ alignas(16) float held[108];
  alignas(16) float sums[1][1];
  alignas(16) float factors[9];
  alignas(16) float values[3][3];
  alignas(16) float read[1];
  // const firstChannel = (blockIdx.x % layout.chunks) * width;
  const int firstChannel = index_below(blockIdx.x, 0x7fffffff) % 1 * 8;
  // const own = (threadIdx.x % layout.across) * lanes;
  const int own = index_below(threadIdx.x, 1024) % 8 * 1;
  // const channel = Math.min(firstChannel + own, channels - lanes);
  const int channel = min(wrap_add(firstChannel, own), 7);
  // const item = idiv(blockIdx.x, layout.chunks) * layout.down + idiv(threadIdx.x, layout.across);
  const int item = wrap_add(wrap_mul(index_below(blockIdx.x, 0x7fffffff) / 1, 16), index_below(threadIdx.x, 1024) / 8);
  // const isOwn = item < items && firstChannel + own < channels;
  const bool isOwn = item < 108 && wrap_add(firstChannel, own) < 8;
  // const i = Math.min(item, items - 1);
  const int i = min(item, 107);
  // const across = i % columns.patches;
  const int across = i % 9;
  // const down = idiv(i, columns.patches) % rows.patches;
  const int down = i / 9 % 6;
  // const image = idiv(i, layout.perPlane);
  const int image = i / 54;
  // for (let r = 0; r < patch.rows; r++)
  #pragma unroll
  for (int r = 0; r < 1; r++) {
    // for (let c = 0; c < patch.columns; c++) sums[r][c] = splatLanes(f32(0), lanes, context);
    #pragma unroll
    for (int c = 0; c < 1; c++) {
      sums[r][c] = 0.0f;
    }
  }
  // const none = element(splatLanes(f32(0), lanes, context));
  const float none = round_bf16(0.0f);
  // for (let round = 0; round < rounds; round++) {
  #pragma unroll
  for (int round_ = 0; round_ < 1; round_++) {
    // const input = idiv(round, layout.pieces);
    const int input = round_ / 1;
    // const pieceRow = idiv(round, columns.pieces) % rows.pieces;
    const int pieceRow = round_ / 1 % 1;
    // const pieceColumn = round % columns.pieces;
    const int pieceColumn = round_ % 1;
    // const source = outputs === 1 ? channel * inputs + input : idiv(channel, outputs);
    const int source = channel * 1 + input;
    // const from = imageOffset + image * (size[0] * size[1] * groups * inputs) + source;
    const int from = 0 + image * 432 + source;
    // const top = down * rows.patchShift + pieceRow * rows.pieceShift;
    const int top = wrap_add(wrap_mul(down, 1), wrap_mul(pieceRow, 0));
    // const left = across * columns.patchShift + pieceColumn * columns.pieceShift;
    const int left = wrap_add(wrap_mul(across, 1), wrap_mul(pieceColumn, 0));
    // const v = top + rows.lines[line]!.at;
    const int v = wrap_add(top, -1);
    // const inside = (!rows.lines[line]!.before || v >= 0) && (!rows.lines[line]!.beyond || v < size[0]);
    const bool inside = v >= 0 && true;
    // const start = from + v * (size[1] * pitch);
    const int start = from + v * 72;
    // const u = left + columns.lines[k]!.at;
    const int u = wrap_add(left, -1);
    // const there =
    const bool there = inside && u >= 0 && true;
    // values[to][k] = there
    float t = 0.0f;
    if (there) {
      // ? f32(loadLanes(x, start + u * pitch, lanes, context))
      const int at = start + u * 8;
      t = bf16_to_float(x[at]);
    } else {
      // : splatLanes(f32(0), lanes, context);
      t = 0.0f;
    }
    // values[to][k] = there
    values[0][0] = t;
    // const u = left + columns.lines[k]!.at;
    const int u_1 = left + 0;
    // const there =
    const bool there_1 = inside && true && true;
    // values[to][k] = there
    float t_1 = 0.0f;
    if (there_1) {
      // ? f32(loadLanes(x, start + u * pitch, lanes, context))
      const int at = start + u_1 * 8;
      t_1 = bf16_to_float(x[at]);
    } else {
      // : splatLanes(f32(0), lanes, context);
      t_1 = 0.0f;
    }
    // values[to][k] = there
    values[0][1] = t_1;
    // const u = left + columns.lines[k]!.at;
    const int u_2 = left + 1;
    // const there =
    const bool there_2 = inside && true && u_2 < 9;
    // values[to][k] = there
    float t_2 = 0.0f;
    if (there_2) {
      // ? f32(loadLanes(x, start + u * pitch, lanes, context))
      const int at = start + u_2 * 8;
      t_2 = bf16_to_float(x[at]);
    } else {
      // : splatLanes(f32(0), lanes, context);
      t_2 = 0.0f;
    }
    // values[to][k] = there
    values[0][2] = t_2;
    // const v = top + rows.lines[line]!.at;
    const int v_1 = top + 0;
    // const start = from + v * (size[1] * pitch);
    const int start_1 = from + v_1 * 72;
    // const u = left + columns.lines[k]!.at;
    const int u_3 = wrap_add(left, -1);
    // const there =
    const bool there_3 = u_3 >= 0 && true;
    // values[to][k] = there
    float t_3 = 0.0f;
    if (there_3) {
      // ? f32(loadLanes(x, start + u * pitch, lanes, context))
      const int at = start_1 + u_3 * 8;
      t_3 = bf16_to_float(x[at]);
    } else {
      // : splatLanes(f32(0), lanes, context);
      t_3 = 0.0f;
    }
    // values[to][k] = there
    values[1][0] = t_3;
    // const u = left + columns.lines[k]!.at;
    const int u_4 = left + 0;
    // ? f32(loadLanes(x, start + u * pitch, lanes, context))
    const int at = start_1 + u_4 * 8;
    // values[to][k] = there
    values[1][1] = bf16_to_float(x[at]);
    // const u = left + columns.lines[k]!.at;
    const int u_5 = left + 1;
    // const there =
    const bool there_4 = u_5 < 9;
    // values[to][k] = there
    float t_4 = 0.0f;
    if (there_4) {
      // ? f32(loadLanes(x, start + u * pitch, lanes, context))
      const int at_1 = start_1 + u_5 * 8;
      t_4 = bf16_to_float(x[at_1]);
    } else {
      // : splatLanes(f32(0), lanes, context);
      t_4 = 0.0f;
    }
    // values[to][k] = there
    values[1][2] = t_4;
    // if (round > 0) barrier();
    if (round_ > 0) {
      __syncthreads();
    }
    // const member = idiv(threadIdx.x, beside);
    const int member = index_below(threadIdx.x, 1024) / 9;
    // for (let first = 0; first < taps; first += beside) {
    #pragma unroll
    for (int first = 0; first < 9; first += 9) {
      // const t = first + (threadIdx.x % beside);
      const int t_5 = first + index_below(threadIdx.x, 1024) % 9;
      // const tapRow = pieceRow * rows.taps + idiv(t, columns.taps);
      const int tapRow = pieceRow * 3 + t_5 / 3;
      // const tapColumn = pieceColumn * columns.taps + (t % columns.taps);
      const int tapColumn = pieceColumn * 3 + t_5 % 3;
      // if (member < down && t < taps)
      if (member < 14 && t_5 < 9) {
        // for (let from = 0; from < width; from += each * down) {
        #pragma unroll
        for (int from_1 = 0; from_1 < 8; from_1 += 14) {
          // for (let n = 0; n < each; n++) {
          #pragma unroll
          for (int n = 0; n < 1; n++) {
            // const of = from + member + n * down;
            const int of = from_1 + member + n * 14;
            // const filter = adjoint ? (firstChannel + of) * inputs + input : firstChannel + of;
            const int filter = firstChannel + of;
            // isIn(from + n * down, member) &&
            const int first_1 = wrap_add(from_1, wrap_mul(n, 14));
            // const there =
            const bool there_5 = (wrap_add(first_1, 14) <= 8 || wrap_add(first_1, member) < 8) && true;
            // const at = secondOffset + filter * layout.allTaps + tapRow * kernel[1] + tapColumn;
            const int at_1 = 0 + filter * 9 + tapRow * 3 + tapColumn;
            // read[n] = there ? f32(w[at]) : f32(0);
            read[n] = there_5 ? bf16_to_float(w[at_1]) : 0.0f;
          }
          // for (let n = 0; n < each; n++) {
          #pragma unroll
          for (int n = 0; n < 1; n++) {
            // const of = from + member + n * down;
            const int of = from_1 + member + n * 14;
            // if (isIn(from + n * down, member)) held[t * PITCH + of] = read[n];
            const int first_1 = wrap_add(from_1, wrap_mul(n, 14));
            if (wrap_add(first_1, 14) <= 8 || wrap_add(first_1, member) < 8) {
              held[t_5 * 12 + of] = read[n];
            }
          }
        }
      }
    }
    // barrier();
    __syncthreads();
    // if (isOwn) {
    if (isOwn) {
      // for (let t = 0; t < taps; t++) factors[t] = loadLanes(held, t * PITCH + own, lanes, context);
      #pragma unroll
      for (int t_5 = 0; t_5 < 9; t_5++) {
        const int at_1 = t_5 * 12 + own;
        factors[t_5] = held[at_1];
      }
      // const v = top + rows.lines[line]!.at;
      const int v_2 = top + 1;
      // const inside = (!rows.lines[line]!.before || v >= 0) && (!rows.lines[line]!.beyond || v < size[0]);
      const bool inside_1 = v_2 < 6;
      // const start = from + v * (size[1] * pitch);
      const int start_2 = from + v_2 * 72;
      // const u = left + columns.lines[k]!.at;
      const int u_6 = wrap_add(left, -1);
      // const there =
      const bool there_5 = inside_1 && u_6 >= 0 && true;
      // values[to][k] = there
      float t_5 = 0.0f;
      if (there_5) {
        // ? f32(loadLanes(x, start + u * pitch, lanes, context))
        const int at_1 = start_2 + u_6 * 8;
        t_5 = bf16_to_float(x[at_1]);
      } else {
        // : splatLanes(f32(0), lanes, context);
        t_5 = 0.0f;
      }
      // values[to][k] = there
      values[2][0] = t_5;
      // const u = left + columns.lines[k]!.at;
      const int u_7 = left + 0;
      // const there =
      const bool there_6 = inside_1 && true && true;
      // values[to][k] = there
      float t_6 = 0.0f;
      if (there_6) {
        // ? f32(loadLanes(x, start + u * pitch, lanes, context))
        const int at_1 = start_2 + u_7 * 8;
        t_6 = bf16_to_float(x[at_1]);
      } else {
        // : splatLanes(f32(0), lanes, context);
        t_6 = 0.0f;
      }
      // values[to][k] = there
      values[2][1] = t_6;
      // const u = left + columns.lines[k]!.at;
      const int u_8 = left + 1;
      // const there =
      const bool there_7 = inside_1 && true && u_8 < 9;
      // values[to][k] = there
      float t_7 = 0.0f;
      if (there_7) {
        // ? f32(loadLanes(x, start + u * pitch, lanes, context))
        const int at_1 = start_2 + u_8 * 8;
        t_7 = bf16_to_float(x[at_1]);
      } else {
        // : splatLanes(f32(0), lanes, context);
        t_7 = 0.0f;
      }
      // values[to][k] = there
      values[2][2] = t_7;
      // sums[r][result] = fma(values[v % (ahead + 1)][line], factors[t], sums[r][result]);
      sums[0][0] = fmaf(values[0][0], factors[0], sums[0][0]);
      sums[0][0] = fmaf(values[0][1], factors[1], sums[0][0]);
      sums[0][0] = fmaf(values[0][2], factors[2], sums[0][0]);
      sums[0][0] = fmaf(values[1][0], factors[3], sums[0][0]);
      sums[0][0] = fmaf(values[1][1], factors[4], sums[0][0]);
      sums[0][0] = fmaf(values[1][2], factors[5], sums[0][0]);
      // const row = down * patch.rows + r;
      const int row = wrap_add(wrap_mul(down, 1), 0);
      // for (let c = 0; c < patch.columns; c++) {
      #pragma unroll
      for (int c = 0; c < 1; c++) {
        // const column = across * patch.columns + c;
        const int column = wrap_add(wrap_mul(across, 1), c);
        // const v = isRow(row) ? row : outSize[0] - 1;
        const int v_3 = row;
        // const u = isColumn(column) ? column : outSize[1] - 1;
        const int u_9 = column;
      }
      // sums[r][result] = fma(values[v % (ahead + 1)][line], factors[t], sums[r][result]);
      sums[0][0] = fmaf(values[2][0], factors[6], sums[0][0]);
      sums[0][0] = fmaf(values[2][1], factors[7], sums[0][0]);
      sums[0][0] = fmaf(values[2][2], factors[8], sums[0][0]);
      // const row = down * patch.rows + r;
      const int row_1 = down * 1 + 0;
      // for (let c = 0; c < patch.columns; c++) {
      #pragma unroll
      for (int c = 0; c < 1; c++) {
        // const column = across * patch.columns + c;
        const int column = across * 1 + c;
        // const number = numbers[r]! * patch.columns + c;
        const int number = wrap_add(0, c);
        // const to = ((image * outSize[0] + row) * outSize[1] + column) * channels + channel;
        const int to = ((image * 6 + row_1) * 9 + column) * 8 + channel;
        // finish(number, element(sums[r][c]), channel, image, row, column),
        const float t_8 = sums[0][c];
        // else x[at] = v;
        y[to] = float_to_bf16(t_8);
      }
    }
  }
}
