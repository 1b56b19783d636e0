typedef unsigned short bf16;  // the upper 16 bits of a float
__device__ inline int index_below(unsigned i, unsigned end) { __builtin_assume(i < end); return i; }
__device__ inline int wrap_mul(int a, int b) { return (int)((unsigned int)a * (unsigned int)b); }
__device__ inline int wrap_add(int a, int b) { return (int)((unsigned int)a + (unsigned int)b); }
__device__ inline bf16 float_to_bf16(float f) { unsigned both; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(0.0f), "f"(f)); return (bf16)both; }
__device__ inline float bf16_to_float(bf16 bits) { return __uint_as_float((unsigned)bits << 16); }
__device__ inline float round_bf16(float f) { unsigned both; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(f), "f"(0.0f)); return __uint_as_float(both); }

extern "C" __global__ void to_bf16(const float* x, bf16 scale, bf16* y, bf16* z, int n) {
  // const i = globalId.x;
  const int i = wrap_add(wrap_mul(index_below(blockIdx.x, 0x7fffffff), index_below(blockDim.x, 1025)), index_below(threadIdx.x, 1024));
  // if (i >= n) return;
  if (i >= n) {
    return;
  }
  // y[i] = bf16(x[i]);
  y[i] = float_to_bf16(x[i]);
  // const product = y[i] * scale;
  const float product = round_bf16(bf16_to_float(y[i]) * bf16_to_float(scale));
  // z[i] = product + y[i];
  z[i] = float_to_bf16(product + bf16_to_float(y[i]));
}
