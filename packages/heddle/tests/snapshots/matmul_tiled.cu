extern "C" __global__ void matmul_tiled(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ alignas(16) float tileA[16][16];
  __shared__ alignas(16) float tileB[16][17];
  // const row = blockIdx.y * TILE + threadIdx.y;
  const int row = int(blockIdx.y) * 16 + int(threadIdx.y);
  // const column = blockIdx.x * TILE + threadIdx.x;
  const int column = int(blockIdx.x) * 16 + int(threadIdx.x);
  // let sum = f32(0);
  float sum = 0.0f;
  // for (let start = 0; start < k; start += TILE) {
  for (int start = 0; start < k; start += 16) {
    // const across = start + threadIdx.x;
    const int across = start + int(threadIdx.x);
    // const down = start + threadIdx.y;
    const int down = start + int(threadIdx.y);
    // tileA[threadIdx.y][threadIdx.x] = row < m && across < k ? a[row * k + across] : 0;
    tileA[int(threadIdx.y)][int(threadIdx.x)] = row < m && across < k ? a[row * k + across] : 0.0f;
    // tileB[threadIdx.y][threadIdx.x] = down < k && column < n ? b[down * n + column] : 0;
    tileB[int(threadIdx.y)][int(threadIdx.x)] = down < k && column < n ? b[down * n + column] : 0.0f;
    // barrier();
    __syncthreads();
    // for (let i = 0; i < TILE; i++) {
    #pragma unroll
    for (int i = 0; i < 16; i++) {
      // sum = fma(tileA[threadIdx.y][i], tileB[i][threadIdx.x], sum);
      sum = fmaf(tileA[int(threadIdx.y)][i], tileB[i][int(threadIdx.x)], sum);
    }
    // barrier();
    __syncthreads();
  }
  // if (row < m && column < n) c[row * n + column] = sum;
  if (row < m && column < n) {
    c[row * n + column] = sum;
  }
}
