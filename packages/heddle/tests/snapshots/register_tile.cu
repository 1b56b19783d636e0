struct alignas(16) f32x4 { float x, y, z, w; };
__device__ inline int index_below(unsigned i, unsigned end) { __builtin_assume(i < end); return i; }
__device__ inline f32x4 splat_f32x4(float a) { return {a, a, a, a}; }
__device__ inline f32x4 operator*(f32x4 a, f32x4 b) { return {a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w}; }
__device__ inline f32x4 operator+(f32x4 a, f32x4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }

extern "C" __global__ void register_tile(const float* a, const float* b, float* c, int n, int k) {
  alignas(16) f32x4 acc[4];
  // const column = globalId.x * 4;
  const int column = (index_below(blockIdx.x, 0x7fffffff) * index_below(blockDim.x, 1025) + index_below(threadIdx.x, 1024)) * 4;
  // const row = globalId.y * ROWS;
  const int row = (index_below(blockIdx.y, 65535) * index_below(blockDim.y, 1025) + index_below(threadIdx.y, 1024)) * 4;
  // for (let r = 0; r < ROWS; r++) acc[r] = splat4(0);
  #pragma unroll
  for (int r = 0; r < 4; r++) {
    acc[r] = splat_f32x4(0.0f);
  }
  // for (let i = 0; i < k; i++) {
  for (int i = 0; i < k; i++) {
    // const right = load4(b, i * n + column);
    const f32x4 right = *reinterpret_cast<const f32x4*>(b + (i * n + column));
    // for (let r = 0; r < ROWS; r++) acc[r] = acc[r] + splat4(a[(row + r) * k + i]) * right;
    #pragma unroll
    for (int r = 0; r < 4; r++) {
      acc[r] = acc[r] + splat_f32x4(a[(row + r) * k + i]) * right;
    }
  }
  // for (let r = 0; r < ROWS; r++) store4(c, (row + r) * n + column, acc[r]);
  #pragma unroll
  for (int r = 0; r < 4; r++) {
    *reinterpret_cast<f32x4*>(c + ((row + r) * n + column)) = acc[r];
  }
}
