typedef unsigned short bf16;  // the upper 16 bits of a float
__device__ inline int index_below(unsigned i, unsigned end) { __builtin_assume(i < end); return i; }
__device__ inline int wrap_mul(int a, int b) { return (int)((unsigned int)a * (unsigned int)b); }
__device__ inline int wrap_add(int a, int b) { return (int)((unsigned int)a + (unsigned int)b); }
__device__ inline float bf16_to_float(bf16 bits) { return __uint_as_float((unsigned)bits << 16); }
struct alignas(16) f32x4 { float x, y, z, w; };
__device__ inline f32x4 splat_f32x4(float a) { return {a, a, a, a}; }
struct alignas(8) bf16x4 { bf16 x, y, z, w; };
__device__ inline f32x4 load_bf16x4(bf16x4 a) { return {bf16_to_float(a.x), bf16_to_float(a.y), bf16_to_float(a.z), bf16_to_float(a.w)}; }
__device__ inline f32x4 cast_f32x4(f32x4 a) { return {a.x, a.y, a.z, a.w}; }
__device__ inline bf16 float_to_bf16(float f) { unsigned both; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(0.0f), "f"(f)); return (bf16)both; }
__device__ inline bf16x4 store_bf16x4(f32x4 a) { return {float_to_bf16(a.x), float_to_bf16(a.y), float_to_bf16(a.z), float_to_bf16(a.w)}; }

extern "C" __global__ void conv2dDepthwise_conv2d_3_tf32_bf16_0(const bf16* x, const bf16* w, bf16* y) {
  alignas(16) float sums[2][8];
  alignas(16) float factors[9];
  alignas(16) float values[10];
  // const i = globalId.x;
  const int i = wrap_add(wrap_mul(index_below(blockIdx.x, 0x7fffffff), index_below(blockDim.x, 1025)), index_below(threadIdx.x, 1024));
  // if (i >= items) return;
  if (i >= 1200) {
    return;
  }
  // const across = i % columns.patches;
  const int across = i % 1;
  // const down = idiv(i, columns.patches) % rows.patches;
  const int down = i / 1 % 1;
  // const plane = idiv(i, layout.perPlane);
  const int plane = i / 1;
  // const channel = plane % (groups * outputs);
  const int channel = plane % 4;
  // const group = idiv(channel, outputs);
  const int group = channel / 1;
  // const image = idiv(plane, groups * outputs);
  const int image = plane / 4;
  // for (let r = 0; r < patch.rows; r++) for (let c = 0; c < patch.columns; c++) sums[r][c] = f32(0);
  #pragma unroll
  for (int r = 0; r < 2; r++) {
    #pragma unroll
    for (int c = 0; c < 8; c++) {
      sums[r][c] = 0.0f;
    }
  }
  // for (let piece = 0; piece < inputs * layout.pieces; piece++) {
  #pragma unroll
  for (int piece = 0; piece < 1; piece++) {
    // const input = idiv(piece, layout.pieces);
    const int input = piece / 1;
    // const pieceRow = idiv(piece, columns.pieces) % rows.pieces;
    const int pieceRow = piece / 1 % 1;
    // const pieceColumn = piece % columns.pieces;
    const int pieceColumn = piece % 1;
    // const filter = weightOffset + (adjoint ? group * inputs + input : channel) * layout.allTaps;
    const int filter = 0 + channel * 9;
    // for (let t = 0; t < layout.taps; t++) {
    #pragma unroll
    for (int t = 0; t < 9; t++) {
      // const tapRow = pieceRow * rows.taps + idiv(t, columns.taps);
      const int tapRow = pieceRow * 3 + t / 3;
      // const tapColumn = pieceColumn * columns.taps + (t % columns.taps);
      const int tapColumn = pieceColumn * 3 + t % 3;
      // factors[t] = there ? f32(w[filter + tapRow * kernel[1] + tapColumn]) : f32(0);
      factors[t] = bf16_to_float(w[filter + tapRow * 3 + tapColumn]);
    }
    // const from = imageOffset + ((image * groups + group) * inputs + input) * (size[0] * size[1]);
    const int from = 0 + ((image * 4 + group) * 1 + input) * 16;
    // const top = down * rows.patchShift + pieceRow * rows.pieceShift;
    const int top = wrap_add(wrap_mul(down, 2), wrap_mul(pieceRow, 0));
    // const left = across * columns.patchShift + pieceColumn * columns.pieceShift;
    const int left = wrap_add(wrap_mul(across, 8), wrap_mul(pieceColumn, 0));
    // const v = top + rows.lines[line]!.at;
    const int v = wrap_add(top, -1);
    // const inside = (!rows.lines[line]!.before || v >= 0) && (!rows.lines[line]!.beyond || v < size[0]);
    const bool inside = v >= 0 && true;
    // const start = from + v * size[1];
    const int start = from + v * 8;
    // const u = left + reads[k]!.at;
    const int u = wrap_add(left, -1);
    // const there = inside && (!reads[k]!.before || u >= 0) && (!reads[k]!.beyond || u < size[1]);
    const bool there = inside && u >= 0 && true;
    // const read = there ? f32(loadLanes(x, start + u, lanes, context)) : none;
    float t = 0.0f;
    if (there) {
      const int at = start + u;
      t = bf16_to_float(x[at]);
    } else {
      t = 0.0f;
    }
    const float read = t;
    // if (reads[k]!.places[l]! >= 0) values[reads[k]!.places[l]!] = lanes === 1 ? read : lane(read, l);
    values[0] = read;
    // const u = left + reads[k]!.at;
    const int u_1 = left + 0;
    // const there = inside && (!reads[k]!.before || u >= 0) && (!reads[k]!.beyond || u < size[1]);
    const bool there_1 = inside && true && true;
    // const none = lanes === 4 ? splat4(f32(0)) : lanes === 2 ? splat2(f32(0)) : f32(0);
    const f32x4 none = splat_f32x4(0.0f);
    // const read = there ? f32(loadLanes(x, start + u, lanes, context)) : none;
    f32x4 t_1 = splat_f32x4(0.0f);
    if (there_1) {
      const int at = start + u_1;
      t_1 = cast_f32x4(load_bf16x4(*reinterpret_cast<const bf16x4*>(x + at)));
    } else {
      t_1 = none;
    }
    const f32x4 read_1 = t_1;
    // if (reads[k]!.places[l]! >= 0) values[reads[k]!.places[l]!] = lanes === 1 ? read : lane(read, l);
    values[1] = read_1.x;
    values[2] = read_1.y;
    values[3] = read_1.z;
    values[4] = read_1.w;
    // const u = left + reads[k]!.at;
    const int u_2 = left + 4;
    // const there = inside && (!reads[k]!.before || u >= 0) && (!reads[k]!.beyond || u < size[1]);
    const bool there_2 = inside && true && true;
    // const none = lanes === 4 ? splat4(f32(0)) : lanes === 2 ? splat2(f32(0)) : f32(0);
    const f32x4 none_1 = splat_f32x4(0.0f);
    // const read = there ? f32(loadLanes(x, start + u, lanes, context)) : none;
    f32x4 t_2 = splat_f32x4(0.0f);
    if (there_2) {
      const int at = start + u_2;
      t_2 = cast_f32x4(load_bf16x4(*reinterpret_cast<const bf16x4*>(x + at)));
    } else {
      t_2 = none_1;
    }
    const f32x4 read_2 = t_2;
    // if (reads[k]!.places[l]! >= 0) values[reads[k]!.places[l]!] = lanes === 1 ? read : lane(read, l);
    values[5] = read_2.x;
    values[6] = read_2.y;
    values[7] = read_2.z;
    values[8] = read_2.w;
    // const u = left + reads[k]!.at;
    const int u_3 = left + 8;
    // const there = inside && (!reads[k]!.before || u >= 0) && (!reads[k]!.beyond || u < size[1]);
    const bool there_3 = inside && true && u_3 < 8;
    // const read = there ? f32(loadLanes(x, start + u, lanes, context)) : none;
    float t_3 = 0.0f;
    if (there_3) {
      const int at = start + u_3;
      t_3 = bf16_to_float(x[at]);
    } else {
      t_3 = 0.0f;
    }
    const float read_3 = t_3;
    // if (reads[k]!.places[l]! >= 0) values[reads[k]!.places[l]!] = lanes === 1 ? read : lane(read, l);
    values[9] = read_3;
    // sums[r][result] = fma(values[line], factors[t], sums[r][result]);
    sums[0][0] = fmaf(values[0], factors[0], sums[0][0]);
    sums[0][0] = fmaf(values[1], factors[1], sums[0][0]);
    sums[0][1] = fmaf(values[1], factors[0], sums[0][1]);
    sums[0][0] = fmaf(values[2], factors[2], sums[0][0]);
    sums[0][1] = fmaf(values[2], factors[1], sums[0][1]);
    sums[0][2] = fmaf(values[2], factors[0], sums[0][2]);
    sums[0][1] = fmaf(values[3], factors[2], sums[0][1]);
    sums[0][2] = fmaf(values[3], factors[1], sums[0][2]);
    sums[0][3] = fmaf(values[3], factors[0], sums[0][3]);
    sums[0][2] = fmaf(values[4], factors[2], sums[0][2]);
    sums[0][3] = fmaf(values[4], factors[1], sums[0][3]);
    sums[0][4] = fmaf(values[4], factors[0], sums[0][4]);
    sums[0][3] = fmaf(values[5], factors[2], sums[0][3]);
    sums[0][4] = fmaf(values[5], factors[1], sums[0][4]);
    sums[0][5] = fmaf(values[5], factors[0], sums[0][5]);
    sums[0][4] = fmaf(values[6], factors[2], sums[0][4]);
    sums[0][5] = fmaf(values[6], factors[1], sums[0][5]);
    sums[0][6] = fmaf(values[6], factors[0], sums[0][6]);
    sums[0][5] = fmaf(values[7], factors[2], sums[0][5]);
    sums[0][6] = fmaf(values[7], factors[1], sums[0][6]);
    sums[0][7] = fmaf(values[7], factors[0], sums[0][7]);
    sums[0][6] = fmaf(values[8], factors[2], sums[0][6]);
    sums[0][7] = fmaf(values[8], factors[1], sums[0][7]);
    sums[0][7] = fmaf(values[9], factors[2], sums[0][7]);
    // const v = top + rows.lines[line]!.at;
    const int v_1 = top + 0;
    // const start = from + v * size[1];
    const int start_1 = from + v_1 * 8;
    // const u = left + reads[k]!.at;
    const int u_4 = wrap_add(left, -1);
    // const there = inside && (!reads[k]!.before || u >= 0) && (!reads[k]!.beyond || u < size[1]);
    const bool there_4 = u_4 >= 0 && true;
    // const read = there ? f32(loadLanes(x, start + u, lanes, context)) : none;
    float t_4 = 0.0f;
    if (there_4) {
      const int at = start_1 + u_4;
      t_4 = bf16_to_float(x[at]);
    } else {
      t_4 = 0.0f;
    }
    const float read_4 = t_4;
    // if (reads[k]!.places[l]! >= 0) values[reads[k]!.places[l]!] = lanes === 1 ? read : lane(read, l);
    values[0] = read_4;
    // const u = left + reads[k]!.at;
    const int u_5 = left + 0;
    // const none = lanes === 4 ? splat4(f32(0)) : lanes === 2 ? splat2(f32(0)) : f32(0);
    const f32x4 none_2 = splat_f32x4(0.0f);
    // const read = there ? f32(loadLanes(x, start + u, lanes, context)) : none;
    const int at = start_1 + u_5;
    const f32x4 read_5 = cast_f32x4(load_bf16x4(*reinterpret_cast<const bf16x4*>(x + at)));
    // if (reads[k]!.places[l]! >= 0) values[reads[k]!.places[l]!] = lanes === 1 ? read : lane(read, l);
    values[1] = read_5.x;
    values[2] = read_5.y;
    values[3] = read_5.z;
    values[4] = read_5.w;
    // const u = left + reads[k]!.at;
    const int u_6 = left + 4;
    // const none = lanes === 4 ? splat4(f32(0)) : lanes === 2 ? splat2(f32(0)) : f32(0);
    const f32x4 none_3 = splat_f32x4(0.0f);
    // const read = there ? f32(loadLanes(x, start + u, lanes, context)) : none;
    const int at_1 = start_1 + u_6;
    const f32x4 read_6 = cast_f32x4(load_bf16x4(*reinterpret_cast<const bf16x4*>(x + at_1)));
    // if (reads[k]!.places[l]! >= 0) values[reads[k]!.places[l]!] = lanes === 1 ? read : lane(read, l);
    values[5] = read_6.x;
    values[6] = read_6.y;
    values[7] = read_6.z;
    values[8] = read_6.w;
    // const u = left + reads[k]!.at;
    const int u_7 = left + 8;
    // const there = inside && (!reads[k]!.before || u >= 0) && (!reads[k]!.beyond || u < size[1]);
    const bool there_5 = u_7 < 8;
    // const read = there ? f32(loadLanes(x, start + u, lanes, context)) : none;
    float t_5 = 0.0f;
    if (there_5) {
      const int at_2 = start_1 + u_7;
      t_5 = bf16_to_float(x[at_2]);
    } else {
      t_5 = 0.0f;
    }
    const float read_7 = t_5;
    // if (reads[k]!.places[l]! >= 0) values[reads[k]!.places[l]!] = lanes === 1 ? read : lane(read, l);
    values[9] = read_7;
    // sums[r][result] = fma(values[line], factors[t], sums[r][result]);
    sums[0][0] = fmaf(values[0], factors[3], sums[0][0]);
    sums[0][0] = fmaf(values[1], factors[4], sums[0][0]);
    sums[0][1] = fmaf(values[1], factors[3], sums[0][1]);
    sums[0][0] = fmaf(values[2], factors[5], sums[0][0]);
    sums[0][1] = fmaf(values[2], factors[4], sums[0][1]);
    sums[0][2] = fmaf(values[2], factors[3], sums[0][2]);
    sums[0][1] = fmaf(values[3], factors[5], sums[0][1]);
    sums[0][2] = fmaf(values[3], factors[4], sums[0][2]);
    sums[0][3] = fmaf(values[3], factors[3], sums[0][3]);
    sums[0][2] = fmaf(values[4], factors[5], sums[0][2]);
    sums[0][3] = fmaf(values[4], factors[4], sums[0][3]);
    sums[0][4] = fmaf(values[4], factors[3], sums[0][4]);
    sums[0][3] = fmaf(values[5], factors[5], sums[0][3]);
    sums[0][4] = fmaf(values[5], factors[4], sums[0][4]);
    sums[0][5] = fmaf(values[5], factors[3], sums[0][5]);
    sums[0][4] = fmaf(values[6], factors[5], sums[0][4]);
    sums[0][5] = fmaf(values[6], factors[4], sums[0][5]);
    sums[0][6] = fmaf(values[6], factors[3], sums[0][6]);
    sums[0][5] = fmaf(values[7], factors[5], sums[0][5]);
    sums[0][6] = fmaf(values[7], factors[4], sums[0][6]);
    sums[0][7] = fmaf(values[7], factors[3], sums[0][7]);
    sums[0][6] = fmaf(values[8], factors[5], sums[0][6]);
    sums[0][7] = fmaf(values[8], factors[4], sums[0][7]);
    sums[0][7] = fmaf(values[9], factors[5], sums[0][7]);
    sums[1][0] = fmaf(values[0], factors[0], sums[1][0]);
    sums[1][0] = fmaf(values[1], factors[1], sums[1][0]);
    sums[1][1] = fmaf(values[1], factors[0], sums[1][1]);
    sums[1][0] = fmaf(values[2], factors[2], sums[1][0]);
    sums[1][1] = fmaf(values[2], factors[1], sums[1][1]);
    sums[1][2] = fmaf(values[2], factors[0], sums[1][2]);
    sums[1][1] = fmaf(values[3], factors[2], sums[1][1]);
    sums[1][2] = fmaf(values[3], factors[1], sums[1][2]);
    sums[1][3] = fmaf(values[3], factors[0], sums[1][3]);
    sums[1][2] = fmaf(values[4], factors[2], sums[1][2]);
    sums[1][3] = fmaf(values[4], factors[1], sums[1][3]);
    sums[1][4] = fmaf(values[4], factors[0], sums[1][4]);
    sums[1][3] = fmaf(values[5], factors[2], sums[1][3]);
    sums[1][4] = fmaf(values[5], factors[1], sums[1][4]);
    sums[1][5] = fmaf(values[5], factors[0], sums[1][5]);
    sums[1][4] = fmaf(values[6], factors[2], sums[1][4]);
    sums[1][5] = fmaf(values[6], factors[1], sums[1][5]);
    sums[1][6] = fmaf(values[6], factors[0], sums[1][6]);
    sums[1][5] = fmaf(values[7], factors[2], sums[1][5]);
    sums[1][6] = fmaf(values[7], factors[1], sums[1][6]);
    sums[1][7] = fmaf(values[7], factors[0], sums[1][7]);
    sums[1][6] = fmaf(values[8], factors[2], sums[1][6]);
    sums[1][7] = fmaf(values[8], factors[1], sums[1][7]);
    sums[1][7] = fmaf(values[9], factors[2], sums[1][7]);
    // const v = top + rows.lines[line]!.at;
    const int v_2 = top + 1;
    // const start = from + v * size[1];
    const int start_2 = from + v_2 * 8;
    // const u = left + reads[k]!.at;
    const int u_8 = wrap_add(left, -1);
    // const there = inside && (!reads[k]!.before || u >= 0) && (!reads[k]!.beyond || u < size[1]);
    const bool there_6 = u_8 >= 0 && true;
    // const read = there ? f32(loadLanes(x, start + u, lanes, context)) : none;
    float t_6 = 0.0f;
    if (there_6) {
      const int at_2 = start_2 + u_8;
      t_6 = bf16_to_float(x[at_2]);
    } else {
      t_6 = 0.0f;
    }
    const float read_8 = t_6;
    // if (reads[k]!.places[l]! >= 0) values[reads[k]!.places[l]!] = lanes === 1 ? read : lane(read, l);
    values[0] = read_8;
    // const u = left + reads[k]!.at;
    const int u_9 = left + 0;
    // const none = lanes === 4 ? splat4(f32(0)) : lanes === 2 ? splat2(f32(0)) : f32(0);
    const f32x4 none_4 = splat_f32x4(0.0f);
    // const read = there ? f32(loadLanes(x, start + u, lanes, context)) : none;
    const int at_2 = start_2 + u_9;
    const f32x4 read_9 = cast_f32x4(load_bf16x4(*reinterpret_cast<const bf16x4*>(x + at_2)));
    // if (reads[k]!.places[l]! >= 0) values[reads[k]!.places[l]!] = lanes === 1 ? read : lane(read, l);
    values[1] = read_9.x;
    values[2] = read_9.y;
    values[3] = read_9.z;
    values[4] = read_9.w;
    // const u = left + reads[k]!.at;
    const int u_10 = left + 4;
    // const none = lanes === 4 ? splat4(f32(0)) : lanes === 2 ? splat2(f32(0)) : f32(0);
    const f32x4 none_5 = splat_f32x4(0.0f);
    // const read = there ? f32(loadLanes(x, start + u, lanes, context)) : none;
    const int at_3 = start_2 + u_10;
    const f32x4 read_10 = cast_f32x4(load_bf16x4(*reinterpret_cast<const bf16x4*>(x + at_3)));
    // if (reads[k]!.places[l]! >= 0) values[reads[k]!.places[l]!] = lanes === 1 ? read : lane(read, l);
    values[5] = read_10.x;
    values[6] = read_10.y;
    values[7] = read_10.z;
    values[8] = read_10.w;
    // const u = left + reads[k]!.at;
    const int u_11 = left + 8;
    // const there = inside && (!reads[k]!.before || u >= 0) && (!reads[k]!.beyond || u < size[1]);
    const bool there_7 = u_11 < 8;
    // const read = there ? f32(loadLanes(x, start + u, lanes, context)) : none;
    float t_7 = 0.0f;
    if (there_7) {
      const int at_4 = start_2 + u_11;
      t_7 = bf16_to_float(x[at_4]);
    } else {
      t_7 = 0.0f;
    }
    const float read_11 = t_7;
    // if (reads[k]!.places[l]! >= 0) values[reads[k]!.places[l]!] = lanes === 1 ? read : lane(read, l);
    values[9] = read_11;
    // sums[r][result] = fma(values[line], factors[t], sums[r][result]);
    sums[0][0] = fmaf(values[0], factors[6], sums[0][0]);
    sums[0][0] = fmaf(values[1], factors[7], sums[0][0]);
    sums[0][1] = fmaf(values[1], factors[6], sums[0][1]);
    sums[0][0] = fmaf(values[2], factors[8], sums[0][0]);
    sums[0][1] = fmaf(values[2], factors[7], sums[0][1]);
    sums[0][2] = fmaf(values[2], factors[6], sums[0][2]);
    sums[0][1] = fmaf(values[3], factors[8], sums[0][1]);
    sums[0][2] = fmaf(values[3], factors[7], sums[0][2]);
    sums[0][3] = fmaf(values[3], factors[6], sums[0][3]);
    sums[0][2] = fmaf(values[4], factors[8], sums[0][2]);
    sums[0][3] = fmaf(values[4], factors[7], sums[0][3]);
    sums[0][4] = fmaf(values[4], factors[6], sums[0][4]);
    sums[0][3] = fmaf(values[5], factors[8], sums[0][3]);
    sums[0][4] = fmaf(values[5], factors[7], sums[0][4]);
    sums[0][5] = fmaf(values[5], factors[6], sums[0][5]);
    sums[0][4] = fmaf(values[6], factors[8], sums[0][4]);
    sums[0][5] = fmaf(values[6], factors[7], sums[0][5]);
    sums[0][6] = fmaf(values[6], factors[6], sums[0][6]);
    sums[0][5] = fmaf(values[7], factors[8], sums[0][5]);
    sums[0][6] = fmaf(values[7], factors[7], sums[0][6]);
    sums[0][7] = fmaf(values[7], factors[6], sums[0][7]);
    sums[0][6] = fmaf(values[8], factors[8], sums[0][6]);
    sums[0][7] = fmaf(values[8], factors[7], sums[0][7]);
    sums[0][7] = fmaf(values[9], factors[8], sums[0][7]);
    sums[1][0] = fmaf(values[0], factors[3], sums[1][0]);
    sums[1][0] = fmaf(values[1], factors[4], sums[1][0]);
    sums[1][1] = fmaf(values[1], factors[3], sums[1][1]);
    sums[1][0] = fmaf(values[2], factors[5], sums[1][0]);
    sums[1][1] = fmaf(values[2], factors[4], sums[1][1]);
    sums[1][2] = fmaf(values[2], factors[3], sums[1][2]);
    sums[1][1] = fmaf(values[3], factors[5], sums[1][1]);
    sums[1][2] = fmaf(values[3], factors[4], sums[1][2]);
    sums[1][3] = fmaf(values[3], factors[3], sums[1][3]);
    sums[1][2] = fmaf(values[4], factors[5], sums[1][2]);
    sums[1][3] = fmaf(values[4], factors[4], sums[1][3]);
    sums[1][4] = fmaf(values[4], factors[3], sums[1][4]);
    sums[1][3] = fmaf(values[5], factors[5], sums[1][3]);
    sums[1][4] = fmaf(values[5], factors[4], sums[1][4]);
    sums[1][5] = fmaf(values[5], factors[3], sums[1][5]);
    sums[1][4] = fmaf(values[6], factors[5], sums[1][4]);
    sums[1][5] = fmaf(values[6], factors[4], sums[1][5]);
    sums[1][6] = fmaf(values[6], factors[3], sums[1][6]);
    sums[1][5] = fmaf(values[7], factors[5], sums[1][5]);
    sums[1][6] = fmaf(values[7], factors[4], sums[1][6]);
    sums[1][7] = fmaf(values[7], factors[3], sums[1][7]);
    sums[1][6] = fmaf(values[8], factors[5], sums[1][6]);
    sums[1][7] = fmaf(values[8], factors[4], sums[1][7]);
    sums[1][7] = fmaf(values[9], factors[5], sums[1][7]);
    // const v = top + rows.lines[line]!.at;
    const int v_3 = top + 2;
    // const inside = (!rows.lines[line]!.before || v >= 0) && (!rows.lines[line]!.beyond || v < size[0]);
    const bool inside_1 = v_3 < 2;
    // const start = from + v * size[1];
    const int start_3 = from + v_3 * 8;
    // const u = left + reads[k]!.at;
    const int u_12 = wrap_add(left, -1);
    // const there = inside && (!reads[k]!.before || u >= 0) && (!reads[k]!.beyond || u < size[1]);
    const bool there_8 = inside_1 && u_12 >= 0 && true;
    // const read = there ? f32(loadLanes(x, start + u, lanes, context)) : none;
    float t_8 = 0.0f;
    if (there_8) {
      const int at_4 = start_3 + u_12;
      t_8 = bf16_to_float(x[at_4]);
    } else {
      t_8 = 0.0f;
    }
    const float read_12 = t_8;
    // if (reads[k]!.places[l]! >= 0) values[reads[k]!.places[l]!] = lanes === 1 ? read : lane(read, l);
    values[0] = read_12;
    // const u = left + reads[k]!.at;
    const int u_13 = left + 0;
    // const there = inside && (!reads[k]!.before || u >= 0) && (!reads[k]!.beyond || u < size[1]);
    const bool there_9 = inside_1 && true && true;
    // const none = lanes === 4 ? splat4(f32(0)) : lanes === 2 ? splat2(f32(0)) : f32(0);
    const f32x4 none_6 = splat_f32x4(0.0f);
    // const read = there ? f32(loadLanes(x, start + u, lanes, context)) : none;
    f32x4 t_9 = splat_f32x4(0.0f);
    if (there_9) {
      const int at_4 = start_3 + u_13;
      t_9 = cast_f32x4(load_bf16x4(*reinterpret_cast<const bf16x4*>(x + at_4)));
    } else {
      t_9 = none_6;
    }
    const f32x4 read_13 = t_9;
    // if (reads[k]!.places[l]! >= 0) values[reads[k]!.places[l]!] = lanes === 1 ? read : lane(read, l);
    values[1] = read_13.x;
    values[2] = read_13.y;
    values[3] = read_13.z;
    values[4] = read_13.w;
    // const u = left + reads[k]!.at;
    const int u_14 = left + 4;
    // const there = inside && (!reads[k]!.before || u >= 0) && (!reads[k]!.beyond || u < size[1]);
    const bool there_10 = inside_1 && true && true;
    // const none = lanes === 4 ? splat4(f32(0)) : lanes === 2 ? splat2(f32(0)) : f32(0);
    const f32x4 none_7 = splat_f32x4(0.0f);
    // const read = there ? f32(loadLanes(x, start + u, lanes, context)) : none;
    f32x4 t_10 = splat_f32x4(0.0f);
    if (there_10) {
      const int at_4 = start_3 + u_14;
      t_10 = cast_f32x4(load_bf16x4(*reinterpret_cast<const bf16x4*>(x + at_4)));
    } else {
      t_10 = none_7;
    }
    const f32x4 read_14 = t_10;
    // if (reads[k]!.places[l]! >= 0) values[reads[k]!.places[l]!] = lanes === 1 ? read : lane(read, l);
    values[5] = read_14.x;
    values[6] = read_14.y;
    values[7] = read_14.z;
    values[8] = read_14.w;
    // const u = left + reads[k]!.at;
    const int u_15 = left + 8;
    // const there = inside && (!reads[k]!.before || u >= 0) && (!reads[k]!.beyond || u < size[1]);
    const bool there_11 = inside_1 && true && u_15 < 8;
    // const read = there ? f32(loadLanes(x, start + u, lanes, context)) : none;
    float t_11 = 0.0f;
    if (there_11) {
      const int at_4 = start_3 + u_15;
      t_11 = bf16_to_float(x[at_4]);
    } else {
      t_11 = 0.0f;
    }
    const float read_15 = t_11;
    // if (reads[k]!.places[l]! >= 0) values[reads[k]!.places[l]!] = lanes === 1 ? read : lane(read, l);
    values[9] = read_15;
    // sums[r][result] = fma(values[line], factors[t], sums[r][result]);
    sums[1][0] = fmaf(values[0], factors[6], sums[1][0]);
    sums[1][0] = fmaf(values[1], factors[7], sums[1][0]);
    sums[1][1] = fmaf(values[1], factors[6], sums[1][1]);
    sums[1][0] = fmaf(values[2], factors[8], sums[1][0]);
    sums[1][1] = fmaf(values[2], factors[7], sums[1][1]);
    sums[1][2] = fmaf(values[2], factors[6], sums[1][2]);
    sums[1][1] = fmaf(values[3], factors[8], sums[1][1]);
    sums[1][2] = fmaf(values[3], factors[7], sums[1][2]);
    sums[1][3] = fmaf(values[3], factors[6], sums[1][3]);
    sums[1][2] = fmaf(values[4], factors[8], sums[1][2]);
    sums[1][3] = fmaf(values[4], factors[7], sums[1][3]);
    sums[1][4] = fmaf(values[4], factors[6], sums[1][4]);
    sums[1][3] = fmaf(values[5], factors[8], sums[1][3]);
    sums[1][4] = fmaf(values[5], factors[7], sums[1][4]);
    sums[1][5] = fmaf(values[5], factors[6], sums[1][5]);
    sums[1][4] = fmaf(values[6], factors[8], sums[1][4]);
    sums[1][5] = fmaf(values[6], factors[7], sums[1][5]);
    sums[1][6] = fmaf(values[6], factors[6], sums[1][6]);
    sums[1][5] = fmaf(values[7], factors[8], sums[1][5]);
    sums[1][6] = fmaf(values[7], factors[7], sums[1][6]);
    sums[1][7] = fmaf(values[7], factors[6], sums[1][7]);
    sums[1][6] = fmaf(values[8], factors[8], sums[1][6]);
    sums[1][7] = fmaf(values[8], factors[7], sums[1][7]);
    sums[1][7] = fmaf(values[9], factors[8], sums[1][7]);
  }
  // for (let r = 0; r < patch.rows; r++) {
  #pragma unroll
  for (int r = 0; r < 2; r++) {
    // const row = down * patch.rows + r;
    const int row = down * 2 + r;
    // for (let c = 0; c < patch.columns; c += lanes) {
    #pragma unroll
    for (int c = 0; c < 8; c += 4) {
      // const column = across * patch.columns + c;
      const int column = across * 8 + c;
      // if (row < outSize[0] && column < outSize[1]) {
      if (row < 2 && column < 8) {
        // const sum =
        const f32x4 sum = f32x4{sums[r][c], sums[r][c + 1], sums[r][c + 2], sums[r][c + 3]};
        // const to = (plane * outSize[0] + row) * outSize[1] + column;
        const int to = (plane * 2 + row) * 8 + column;
        // storeLanes(y, to, finish(element(sum), image, channel, row, column), lanes, context);
        const f32x4 t = sum;
        // if (lanes === 4) store4(x, at, v);
        *reinterpret_cast<bf16x4*>(y + to) = store_bf16x4(t);
      }
    }
  }
}
