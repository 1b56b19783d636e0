__device__ inline int index_below(unsigned i, unsigned end) { __builtin_assume(i < end); return i; }
__device__ inline int wrap_mul(int a, int b) { return (int)((unsigned int)a * (unsigned int)b); }
__device__ inline int wrap_add(int a, int b) { return (int)((unsigned int)a + (unsigned int)b); }
__device__ inline int wrap_sub(int a, int b) { return (int)((unsigned int)a - (unsigned int)b); }
__device__ inline long long wrap_mul(long long a, long long b) { return (long long)((unsigned long long)a * (unsigned long long)b); }
__device__ inline long long wrap_sub(long long a, long long b) { return (long long)((unsigned long long)a - (unsigned long long)b); }
__device__ inline int mod(int a, int b) { return b == 0 || b == -1 ? 0 : a % b; }

extern "C" __global__ void hash(int* table, int* keys, long long* big, int n, int size) {
  // const i = globalId.x;
  const int i = index_below(blockIdx.x, 0x7fffffff) * index_below(blockDim.x, 1025) + index_below(threadIdx.x, 1024);
  // if (i < n) {
  if (i < n) {
    // const mixed = keys[i] * 747796405 + 12345;
    const int mixed = wrap_add(wrap_mul(keys[i], 747796405), 12345);
    // const slot = (mixed ^ (mixed >> 16)) & (size - 1);
    const int slot = (mixed ^ mixed >> 16) & wrap_sub(size, 1);
    // table[slot] = i;
    table[slot] = i;
    // big[i] = i64(mixed) * i64(slot) - i64(1);
    big[i] = wrap_sub(wrap_mul((long long)mixed, (long long)slot), 1ll);
    // keys[i] = i32(mulhi(u32(mixed), 3528531795)) % (slot + 1);
    keys[i] = mod(int(__umulhi(unsigned(mixed), 3528531795u)), wrap_add(slot, 1));
  }
}
