typedef unsigned short f16;  // the bits of an IEEE binary16
__device__ inline int index_below(unsigned i, unsigned end) { __builtin_assume(i < end); return i; }
__device__ inline int wrap_add(int a, int b) { return (int)((unsigned int)a + (unsigned int)b); }
struct alignas(16) f32x4 { float x, y, z, w; };
__device__ inline f32x4 splat_f32x4(float a) { return {a, a, a, a}; }
__device__ inline f32x4 operator*(f32x4 a, f32x4 b) { return {a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w}; }
__device__ inline f32x4 fma_f32x4(f32x4 a, f32x4 b, f32x4 c) { return {fmaf(a.x, b.x, c.x), fmaf(a.y, b.y, c.y), fmaf(a.z, b.z, c.z), fmaf(a.w, b.w, c.w)}; }
struct alignas(8) f16x4 { f16 x, y, z, w; };
__device__ inline float f16_to_float(f16 bits) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(bits)); return f; }
__device__ inline f32x4 load_f16x4(f16x4 a) { return {f16_to_float(a.x), f16_to_float(a.y), f16_to_float(a.z), f16_to_float(a.w)}; }
__device__ inline f16 float_to_f16(float f) { f16 bits; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(f)); return bits; }
__device__ inline float round_f16(float f) { return f16_to_float(float_to_f16(f)); }
__device__ inline f32x4 add_f16x4(f32x4 a, f32x4 b) { return {round_f16(a.x + b.x), round_f16(a.y + b.y), round_f16(a.z + b.z), round_f16(a.w + b.w)}; }
__device__ inline f16x4 store_f16x4(f32x4 a) { return {float_to_f16(a.x), float_to_f16(a.y), float_to_f16(a.z), float_to_f16(a.w)}; }

extern "C" __global__ void scale_by_4(const float* x, f16* h, float* y, int n) {
  // const i = globalId.x * 4;
  const int i = (index_below(blockIdx.x, 0x7fffffff) * index_below(blockDim.x, 1025) + index_below(threadIdx.x, 1024)) * 4;
  // if (i + 3 < n) {
  if (wrap_add(i, 3) < n) {
    // const v = load4(x, i);
    const f32x4 v = *reinterpret_cast<const f32x4*>(x + i);
    // const w = fma(v * splat4(2), v, splat4(1));
    const f32x4 w = fma_f32x4(v * splat_f32x4(2.0f), v, splat_f32x4(1.0f));
    // store4(y, i, w);
    *reinterpret_cast<f32x4*>(y + i) = w;
    // store4(h, i, load4(h, i) + splat4(0.5));
    *reinterpret_cast<f16x4*>(h + i) = store_f16x4(add_f16x4(load_f16x4(*reinterpret_cast<f16x4*>(h + i)), splat_f32x4(0.5f)));
  } else {
    // for (let j = i; j < n; j++) y[j] = lane(splat4(0.5), 0) * x[j];
    for (int j = i; j < n; j++) {
      y[j] = splat_f32x4(0.5f).x * x[j];
    }
  }
}
