extern "C" __global__ void transpose(const float* x, float* y, int rows, int columns) {
  __shared__ alignas(16) float tile[32][33];
  // const column = blockIdx.x * 32 + threadIdx.x;
  const int column = int(blockIdx.x) * 32 + int(threadIdx.x);
  // for (let j = threadIdx.y; j < 32; j += 8) {
  for (int j = int(threadIdx.y); j < 32; j += 8) {
    // const row = blockIdx.y * 32 + j;
    const int row = int(blockIdx.y) * 32 + j;
    // if (row < rows && column < columns) tile[j][threadIdx.x] = x[row * columns + column];
    if (row < rows && column < columns) {
      tile[j][int(threadIdx.x)] = x[row * columns + column];
    }
  }
  // barrier();
  __syncthreads();
  // const across = blockIdx.y * 32 + threadIdx.x;
  const int across = int(blockIdx.y) * 32 + int(threadIdx.x);
  // for (let j = threadIdx.y; j < 32; j += 8) {
  for (int j = int(threadIdx.y); j < 32; j += 8) {
    // const down = blockIdx.x * 32 + j;
    const int down = int(blockIdx.x) * 32 + j;
    // if (down < columns && across < rows) y[down * rows + across] = tile[threadIdx.x][j];
    if (down < columns && across < rows) {
      y[down * rows + across] = tile[int(threadIdx.x)][j];
    }
  }
}
