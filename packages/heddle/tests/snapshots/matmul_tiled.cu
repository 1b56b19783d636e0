__device__ inline int index_below(unsigned i, unsigned end) { __builtin_assume(i < end); return i; }

extern "C" __global__ void matmul_tiled(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ alignas(16) float tileA[16][16];
  __shared__ alignas(16) float tileB[16][17];
  // const row = blockIdx.y * TILE + threadIdx.y;
  const int row = index_below(blockIdx.y, 65535) * 16 + index_below(threadIdx.y, 1024);
  // const column = blockIdx.x * TILE + threadIdx.x;
  const int column = index_below(blockIdx.x, 0x7fffffff) * 16 + index_below(threadIdx.x, 1024);
  // let sum = f32(0);
  float sum = 0.0f;
  // for (let start = 0; start < k; start += TILE) {
  for (int start = 0; start < k; start += 16) {
    // const across = start + threadIdx.x;
    const int across = start + index_below(threadIdx.x, 1024);
    // const down = start + threadIdx.y;
    const int down = start + index_below(threadIdx.y, 1024);
    // tileA[threadIdx.y][threadIdx.x] = row < m && across < k ? a[row * k + across] : 0;
    tileA[index_below(threadIdx.y, 1024)][index_below(threadIdx.x, 1024)] = row < m && across < k ? a[row * k + across] : 0.0f;
    // tileB[threadIdx.y][threadIdx.x] = down < k && column < n ? b[down * n + column] : 0;
    tileB[index_below(threadIdx.y, 1024)][index_below(threadIdx.x, 1024)] = down < k && column < n ? b[down * n + column] : 0.0f;
    // barrier();
    __syncthreads();
    // for (let i = 0; i < TILE; i++) {
    #pragma unroll
    for (int i = 0; i < 16; i++) {
      // sum = fma(tileA[threadIdx.y][i], tileB[i][threadIdx.x], sum);
      sum = fmaf(tileA[index_below(threadIdx.y, 1024)][i], tileB[i][index_below(threadIdx.x, 1024)], sum);
    }
    // barrier();
    __syncthreads();
  }
  // if (row < m && column < n) c[row * n + column] = sum;
  if (row < m && column < n) {
    c[row * n + column] = sum;
  }
}
