struct alignas(16) f32x4 { float x, y, z, w; };
__device__ inline int index_below(unsigned i, unsigned end) { __builtin_assume(i < end); return i; }
__device__ inline f32x4 operator+(f32x4 a, f32x4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }
__device__ inline f32x4 operator-(f32x4 a, f32x4 b) { return {a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w}; }
__device__ inline f32x4 operator*(f32x4 a, f32x4 b) { return {a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w}; }
__device__ inline f32x4 operator/(f32x4 a, f32x4 b) { return {a.x / b.x, a.y / b.y, a.z / b.z, a.w / b.w}; }
__device__ inline f32x4 mod_f32x4(f32x4 a, f32x4 b) { return {fmodf(a.x, b.x), fmodf(a.y, b.y), fmodf(a.z, b.z), fmodf(a.w, b.w)}; }
__device__ inline f32x4 neg_f32x4(f32x4 a) { return {-a.x, -a.y, -a.z, -a.w}; }
__device__ inline f32x4 abs_f32x4(f32x4 a) { return {fabsf(a.x), fabsf(a.y), fabsf(a.z), fabsf(a.w)}; }
__device__ inline float nan_min(float a, float b) { float r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
__device__ inline f32x4 min_f32x4(f32x4 a, f32x4 b) { return {nan_min(a.x, b.x), nan_min(a.y, b.y), nan_min(a.z, b.z), nan_min(a.w, b.w)}; }
__device__ inline float nan_max(float a, float b) { float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
__device__ inline f32x4 max_f32x4(f32x4 a, f32x4 b) { return {nan_max(a.x, b.x), nan_max(a.y, b.y), nan_max(a.z, b.z), nan_max(a.w, b.w)}; }
__device__ inline f32x4 fma_f32x4(f32x4 a, f32x4 b, f32x4 c) { return {fmaf(a.x, b.x, c.x), fmaf(a.y, b.y, c.y), fmaf(a.z, b.z, c.z), fmaf(a.w, b.w, c.w)}; }
__device__ inline f32x4 sqrt_f32x4(f32x4 a) { return {sqrtf(a.x), sqrtf(a.y), sqrtf(a.z), sqrtf(a.w)}; }
__device__ inline f32x4 exp_f32x4(f32x4 a) { return {expf(a.x), expf(a.y), expf(a.z), expf(a.w)}; }
__device__ inline f32x4 expm1_f32x4(f32x4 a) { return {expm1f(a.x), expm1f(a.y), expm1f(a.z), expm1f(a.w)}; }
__device__ inline f32x4 log_f32x4(f32x4 a) { return {logf(a.x), logf(a.y), logf(a.z), logf(a.w)}; }
__device__ inline f32x4 log1p_f32x4(f32x4 a) { return {log1pf(a.x), log1pf(a.y), log1pf(a.z), log1pf(a.w)}; }
__device__ inline f32x4 exp2_f32x4(f32x4 a) { return {exp2f(a.x), exp2f(a.y), exp2f(a.z), exp2f(a.w)}; }
__device__ inline float exp2_normal(float a) { float r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }
__device__ inline f32x4 exp2Normal_f32x4(f32x4 a) { return {exp2_normal(a.x), exp2_normal(a.y), exp2_normal(a.z), exp2_normal(a.w)}; }
__device__ inline f32x4 log2_f32x4(f32x4 a) { return {log2f(a.x), log2f(a.y), log2f(a.z), log2f(a.w)}; }
__device__ inline f32x4 sin_f32x4(f32x4 a) { return {sinf(a.x), sinf(a.y), sinf(a.z), sinf(a.w)}; }
__device__ inline f32x4 cos_f32x4(f32x4 a) { return {cosf(a.x), cosf(a.y), cosf(a.z), cosf(a.w)}; }
__device__ inline f32x4 tanh_f32x4(f32x4 a) { return {tanhf(a.x), tanhf(a.y), tanhf(a.z), tanhf(a.w)}; }
__device__ inline f32x4 atan2_f32x4(f32x4 a, f32x4 b) { return {atan2f(a.x, b.x), atan2f(a.y, b.y), atan2f(a.z, b.z), atan2f(a.w, b.w)}; }
__device__ inline f32x4 erf_f32x4(f32x4 a) { return {erff(a.x), erff(a.y), erff(a.z), erff(a.w)}; }
__device__ inline float normal_cdf(float a) { 
  const float t = nan_min(fabsf(a), 14.5f);
  const float high = __uint_as_float(__float_as_uint(t) & 0xfffff000u);
  const float square = high * high;
  const float power = square * -0.7213475f;
  const float whole = rintf(power);
  float part = fmaf(square, -9.629815e-9f, fmaf(square, -0.7213475f, -power));
  part = power - whole + fmaf((t - high) * (t + high), -0.7213475f, part);
  float e, scale, inverse;
  asm("ex2.approx.f32 %0, %1;" : "=f"(e) : "f"(part));
  asm("ex2.approx.f32 %0, %1;" : "=f"(scale) : "f"(whole));
  const float sum = t + 4.0f;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(sum));
  inverse = fmaf(inverse, fmaf(-sum, inverse, 1.0f), inverse);
  const float u = fmaf(t * inverse, 2.0f, -1.0f);
  const float p = fmaf(fmaf(fmaf(fmaf(fmaf(fmaf(fmaf(fmaf(fmaf(-0.00013197077f, u, 0.00017935285f), u, 0.001569918f), u, -0.003512556f), u, -0.0075252685f), u, 0.06040383f), u, -0.18652344f), u, 0.3871369f), u, -0.60789657f), u, 0.75528514f);
  const float tail = e * (p * inverse) * scale;
  return a < 0.0f ? tail : 1.0f - tail;
 }
__device__ inline f32x4 normcdf_f32x4(f32x4 a) { return {normal_cdf(a.x), normal_cdf(a.y), normal_cdf(a.z), normal_cdf(a.w)}; }
__device__ inline float normpdf16(float a) { float root; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(fmaf(a * a, -0.36067376f, -0.66287404f))); return root * root; }
__device__ inline f32x4 normpdf16_f32x4(f32x4 a) { return {normpdf16(a.x), normpdf16(a.y), normpdf16(a.z), normpdf16(a.w)}; }
__device__ inline float exp16(float a) { float root; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(a * 0.7213475f)); return root * root; }
__device__ inline f32x4 exp16_f32x4(f32x4 a) { return {exp16(a.x), exp16(a.y), exp16(a.z), exp16(a.w)}; }
__device__ inline float normcdf16(float a) { 
  float v;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(v) : "f"(fmaf(fabsf(a), 0.3f, 1.0f)));
  const float tail = normpdf16(a) * (v * fmaf(fmaf(fmaf(fmaf(fmaf(-0.20092724f, v, 0.56438607f), v, -0.06824917f), v, 0.37502888f), v, 0.28180882f), v, 0.3012708f));
  return a < 0.0f ? tail : 1.0f - tail;
 }
__device__ inline f32x4 normcdf16_f32x4(f32x4 a) { return {normcdf16(a.x), normcdf16(a.y), normcdf16(a.z), normcdf16(a.w)}; }
__device__ inline f32x4 pow_f32x4(f32x4 a, f32x4 b) { return {powf(a.x, b.x), powf(a.y, b.y), powf(a.z, b.z), powf(a.w, b.w)}; }
__device__ inline f32x4 floor_f32x4(f32x4 a) { return {floorf(a.x), floorf(a.y), floorf(a.z), floorf(a.w)}; }
__device__ inline f32x4 ceil_f32x4(f32x4 a) { return {ceilf(a.x), ceilf(a.y), ceilf(a.z), ceilf(a.w)}; }
__device__ inline f32x4 trunc_f32x4(f32x4 a) { return {truncf(a.x), truncf(a.y), truncf(a.z), truncf(a.w)}; }
__device__ inline f32x4 rint_f32x4(f32x4 a) { return {rintf(a.x), rintf(a.y), rintf(a.z), rintf(a.w)}; }
__device__ inline float round_tf32(float f) { 
#if __CUDA_ARCH__ >= 900
  unsigned bits;
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(bits) : "f"(f));
  return __uint_as_float(bits);
#else
  const unsigned bits = __float_as_uint(f);
  return f == f ? __uint_as_float((bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu) : f;
#endif
 }
__device__ inline f32x4 tf32_f32x4(f32x4 a) { return {round_tf32(a.x), round_tf32(a.y), round_tf32(a.z), round_tf32(a.w)}; }
struct alignas(4) boolx4 { bool x, y, z, w; };
__device__ inline boolx4 lt_f32x4(f32x4 a, f32x4 b) { return {a.x < b.x, a.y < b.y, a.z < b.z, a.w < b.w}; }
struct alignas(4) u8x4 { unsigned char x, y, z, w; };
__device__ inline u8x4 store_u8x4(boolx4 a) { return {a.x, a.y, a.z, a.w}; }
__device__ inline boolx4 le_f32x4(f32x4 a, f32x4 b) { return {a.x <= b.x, a.y <= b.y, a.z <= b.z, a.w <= b.w}; }
__device__ inline boolx4 gt_f32x4(f32x4 a, f32x4 b) { return {a.x > b.x, a.y > b.y, a.z > b.z, a.w > b.w}; }
__device__ inline boolx4 ge_f32x4(f32x4 a, f32x4 b) { return {a.x >= b.x, a.y >= b.y, a.z >= b.z, a.w >= b.w}; }
__device__ inline boolx4 eq_f32x4(f32x4 a, f32x4 b) { return {a.x == b.x, a.y == b.y, a.z == b.z, a.w == b.w}; }
__device__ inline boolx4 ne_f32x4(f32x4 a, f32x4 b) { return {a.x != b.x, a.y != b.y, a.z != b.z, a.w != b.w}; }
__device__ inline f32x4 selectx4(boolx4 a, f32x4 b, f32x4 c) { return {a.x ? b.x : c.x, a.y ? b.y : c.y, a.z ? b.z : c.z, a.w ? b.w : c.w}; }
__device__ inline f32x4 splat_f32x4(float a) { return {a, a, a, a}; }

extern "C" __global__ void every_op_on_f32_by_4(const float* x, const float* y, const float* z, float* out, unsigned char* truth) {
  const f32x4 a = *reinterpret_cast<const f32x4*>(x + (index_below(threadIdx.x, 1024) * 4 + 0));
  const f32x4 b = *reinterpret_cast<const f32x4*>(y + (index_below(threadIdx.x, 1024) * 4 + 0));
  const f32x4 c = *reinterpret_cast<const f32x4*>(z + (index_below(threadIdx.x, 1024) * 4 + 0));
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 0)) = a + b;
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 4096)) = a - b;
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 8192)) = a * b;
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 12288)) = a / b;
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 16384)) = mod_f32x4(a, b);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 20480)) = neg_f32x4(a);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 24576)) = abs_f32x4(a);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 28672)) = min_f32x4(a, b);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 32768)) = max_f32x4(a, b);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 36864)) = fma_f32x4(a, b, c);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 40960)) = sqrt_f32x4(a);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 45056)) = exp_f32x4(a);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 49152)) = expm1_f32x4(a);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 53248)) = log_f32x4(a);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 57344)) = log1p_f32x4(a);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 61440)) = exp2_f32x4(a);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 65536)) = exp2Normal_f32x4(a);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 69632)) = log2_f32x4(a);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 73728)) = sin_f32x4(a);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 77824)) = cos_f32x4(a);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 81920)) = tanh_f32x4(a);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 86016)) = atan2_f32x4(a, b);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 90112)) = erf_f32x4(a);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 94208)) = normcdf_f32x4(a);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 98304)) = normpdf16_f32x4(a);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 102400)) = exp16_f32x4(a);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 106496)) = normcdf16_f32x4(a);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 110592)) = pow_f32x4(a, b);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 114688)) = floor_f32x4(a);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 118784)) = ceil_f32x4(a);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 122880)) = trunc_f32x4(a);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 126976)) = rint_f32x4(a);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 131072)) = tf32_f32x4(a);
  *reinterpret_cast<u8x4*>(truth + (index_below(threadIdx.x, 1024) * 4 + 135168)) = store_u8x4(lt_f32x4(a, b));
  *reinterpret_cast<u8x4*>(truth + (index_below(threadIdx.x, 1024) * 4 + 139264)) = store_u8x4(le_f32x4(a, b));
  *reinterpret_cast<u8x4*>(truth + (index_below(threadIdx.x, 1024) * 4 + 143360)) = store_u8x4(gt_f32x4(a, b));
  *reinterpret_cast<u8x4*>(truth + (index_below(threadIdx.x, 1024) * 4 + 147456)) = store_u8x4(ge_f32x4(a, b));
  *reinterpret_cast<u8x4*>(truth + (index_below(threadIdx.x, 1024) * 4 + 151552)) = store_u8x4(eq_f32x4(a, b));
  *reinterpret_cast<u8x4*>(truth + (index_below(threadIdx.x, 1024) * 4 + 155648)) = store_u8x4(ne_f32x4(a, b));
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 159744)) = selectx4(eq_f32x4(a, b), b, c);
  *reinterpret_cast<f32x4*>(out + (index_below(threadIdx.x, 1024) * 4 + 163840)) = splat_f32x4(1.0f);
  out[index_below(threadIdx.x, 1024) * 4 + 167936] = a.y;
}
