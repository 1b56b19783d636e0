__device__ inline int index_below(unsigned i, unsigned end) { __builtin_assume(i < end); return i; }

extern "C" __global__ void transpose(const float* x, float* y, int rows, int columns) {
  __shared__ alignas(16) float tile[32][33];
  // const column = blockIdx.x * 32 + threadIdx.x;
  const int column = index_below(blockIdx.x, 0x7fffffff) * 32 + index_below(threadIdx.x, 1024);
  // for (let j = threadIdx.y; j < 32; j += 8) {
  for (int j = index_below(threadIdx.y, 1024); j < 32; j += 8) {
    // const row = blockIdx.y * 32 + j;
    const int row = index_below(blockIdx.y, 65535) * 32 + j;
    // if (row < rows && column < columns) tile[j][threadIdx.x] = x[row * columns + column];
    if (row < rows && column < columns) {
      tile[j][index_below(threadIdx.x, 1024)] = x[row * columns + column];
    }
  }
  // barrier();
  __syncthreads();
  // const across = blockIdx.y * 32 + threadIdx.x;
  const int across = index_below(blockIdx.y, 65535) * 32 + index_below(threadIdx.x, 1024);
  // for (let j = threadIdx.y; j < 32; j += 8) {
  for (int j = index_below(threadIdx.y, 1024); j < 32; j += 8) {
    // const down = blockIdx.x * 32 + j;
    const int down = index_below(blockIdx.x, 0x7fffffff) * 32 + j;
    // if (down < columns && across < rows) y[down * rows + across] = tile[threadIdx.x][j];
    if (down < columns && across < rows) {
      y[down * rows + across] = tile[index_below(threadIdx.x, 1024)][j];
    }
  }
}
