typedef unsigned short f16;  // the bits of an IEEE binary16
typedef unsigned short bf16;  // the upper 16 bits of a float
__device__ inline int index_below(unsigned i, unsigned end) { __builtin_assume(i < end); return i; }
__device__ inline f16 float_to_f16(float f) { f16 bits; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(f)); return bits; }
__device__ inline bf16 float_to_bf16(float f) { unsigned both; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(0.0f), "f"(f)); return (bf16)both; }
__device__ inline signed char saturate_i8(float a) { return a != a ? 0 : max(min(__float2int_rz(a), 127), -128); }
__device__ inline unsigned char saturate_u8(float a) { return a > 0 ? min(__float2uint_rz(a), 255u) : 0u; }
__device__ inline int saturate_i32(float a) { return a != a ? 0 : __float2int_rz(a); }
__device__ inline unsigned saturate_u32(float a) { return a > 0 ? __float2uint_rz(a) : 0u; }
__device__ inline long long saturate_i64(float a) { return a != a ? 0 : __float2ll_rz(a); }

extern "C" __global__ void every_conversion_of_f32_by_1(const float* x, f16* to_f16, bf16* to_bf16, float* to_f32, double* to_f64, signed char* to_i8, unsigned char* to_u8, int* to_i32, unsigned* to_u32, long long* to_i64, unsigned char* to_bool) {
  const float a = x[index_below(threadIdx.x, 1024) * 1 + 0];
  to_f16[index_below(threadIdx.x, 1024) * 1 + 0] = float_to_f16(a);
  to_bf16[index_below(threadIdx.x, 1024) * 1 + 0] = float_to_bf16(a);
  to_f32[index_below(threadIdx.x, 1024) * 1 + 0] = a;
  to_f32[index_below(threadIdx.x, 1024) * 1 + 1024] = a;
  to_f64[index_below(threadIdx.x, 1024) * 1 + 0] = double(a);
  to_i8[index_below(threadIdx.x, 1024) * 1 + 0] = saturate_i8(a);
  to_i8[index_below(threadIdx.x, 1024) * 1 + 2048] = max(min(__float2int_rn(a), 127), -128);
  to_u8[index_below(threadIdx.x, 1024) * 1 + 0] = saturate_u8(a);
  to_u8[index_below(threadIdx.x, 1024) * 1 + 2048] = max(min(__float2int_rn(a), 255), 0);
  to_i32[index_below(threadIdx.x, 1024) * 1 + 0] = saturate_i32(a);
  to_i32[index_below(threadIdx.x, 1024) * 1 + 1024] = __float_as_int(a);
  to_u32[index_below(threadIdx.x, 1024) * 1 + 0] = saturate_u32(a);
  to_u32[index_below(threadIdx.x, 1024) * 1 + 1024] = __float_as_uint(a);
  to_i64[index_below(threadIdx.x, 1024) * 1 + 0] = saturate_i64(a);
  to_bool[index_below(threadIdx.x, 1024) * 1 + 0] = a != 0.0f;
}
