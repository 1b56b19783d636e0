__device__ inline int index_below(unsigned i, unsigned end) { __builtin_assume(i < end); return i; }
__device__ inline int wrap_mul(int a, int b) { return (int)((unsigned int)a * (unsigned int)b); }
__device__ inline int wrap_add(int a, int b) { return (int)((unsigned int)a + (unsigned int)b); }
struct alignas(16) u32x4 { unsigned x, y, z, w; };
__device__ inline int wrap_sub(int a, int b) { return (int)((unsigned int)a - (unsigned int)b); }
__device__ inline int shl(int a, int b) { return (int)((unsigned int)a << (b & 31)); }

extern "C" __global__ void draw_normal_f32(float* values, const unsigned* state, const double* scaling) {
  // const first = i32(state[5]) + globalId.x * EACH;
  const int first = wrap_add(int(state[5]), wrap_mul(wrap_add(wrap_mul(index_below(blockIdx.x, 0x7fffffff), index_below(blockDim.x, 1025)), index_below(threadIdx.x, 1024)), 1));
  // const end = i32(state[6]);
  const int end = int(state[6]);
  // if (first >= end) return;
  if (first >= end) {
    return;
  }
  // const low = state[2] + u32(idiv(globalId.x, SHARERS));
  const unsigned low = state[2] + unsigned(wrap_add(wrap_mul(index_below(blockIdx.x, 0x7fffffff), index_below(blockDim.x, 1025)), index_below(threadIdx.x, 1024)) / 2);
  // const high = select(low < state[2], state[3] + 1, state[3]);
  const unsigned high = low < state[2] ? state[3] + 1u : state[3];
  // const words = philoxBlock(low, high, state[4], state[0], state[1], context);
  const unsigned stream = state[4];
  const unsigned key0 = state[0];
  const unsigned key1 = state[1];
  // let c0 = low;
  unsigned c0 = low;
  // let c1 = high;
  unsigned c1 = high;
  // let c2 = stream;
  unsigned c2 = stream;
  // let c3 = u32(0);
  unsigned c3 = 0u;
  // let k0 = key0;
  unsigned k0 = key0;
  // let k1 = key1;
  unsigned k1 = key1;
  // for (let round = 0; round < 10; round++) {
  #pragma unroll
  for (int round_ = 0; round_ < 10; round_++) {
    // const low0 = u32(0xd2511f53) * c0;
    const unsigned low0 = 3528531795u * c0;
    // const high0 = mulhi(u32(0xd2511f53), c0);
    const unsigned high0 = __umulhi(3528531795u, c0);
    // const low1 = u32(0xcd9e8d57) * c2;
    const unsigned low1 = 3449720151u * c2;
    // const high1 = mulhi(u32(0xcd9e8d57), c2);
    const unsigned high1 = __umulhi(3449720151u, c2);
    // c0 = high1 ^ c1 ^ k0;
    c0 = high1 ^ c1 ^ k0;
    // c1 = low1;
    c1 = low1;
    // c2 = high0 ^ c3 ^ k1;
    c2 = high0 ^ c3 ^ k1;
    // c3 = low0;
    c3 = low0;
    // k0 += u32(0x9e3779b9);
    k0 = k0 + 2654435769u;
    // k1 += u32(0xbb67ae85);
    k1 = k1 + 3144134277u;
  }
  // const words = philoxBlock(low, high, state[4], state[0], state[1], context);
  const u32x4 words = u32x4{c0, c1, c2, c3};
  // const isSecond = globalId.x % SHARERS === 1;
  const bool isSecond = wrap_add(wrap_mul(index_below(blockIdx.x, 0x7fffffff), index_below(blockDim.x, 1025)), index_below(threadIdx.x, 1024)) % 2 == 1;
  // const a = select(isSecond, lane(words, 2), lane(words, 0));
  const unsigned a = isSecond ? words.z : words.x;
  // put(0, normalOf(a, select(isSecond, lane(words, 3), lane(words, 1))));
  const unsigned b = isSecond ? words.w : words.y;
  // const bits = bitcast(i32, f32(2 ** 24 - i32(a >> 8)));
  const int bits = __float_as_int(float(wrap_sub(16777216, int(a >> 8u))));
  // const exponent = (bits - SQRT_HALF) >> 23;
  const int exponent = wrap_sub(bits, 1060439283) >> 23;
  // const turn = i32(b >> 8);
  const int turn = int(b >> 8u);
  // const y = f64(2 ** 22 - Math.min(turn, 2 ** 24 - turn)) * 2 ** -24;
  const double y = double(wrap_sub(4194304, min(turn, wrap_sub(16777216, turn)))) * 5.960464477539063e-8;
  // return gaussian(f64(bitcast(f32, bits - (exponent << 23))), f64(exponent - 24), y, {
  const double m = double(__int_as_float(wrap_sub(bits, shl(exponent, 23))));
  const double exponent_1 = double(wrap_sub(exponent, 24));
  // const z = (m - 1) / (m + 1);
  const double z = (m - 1.0) / (m + 1.0);
  // const logarithm = exponent * Math.LN2 + 2 * z * polynomial(z * z, ARTANH);
  const double x = z * z;
  // let sum = coefficients[0]! * x + coefficients[1]!;
  double sum = 0.047619047619047616 * x + 0.05263157894736842;
  // for (let k = 2; k < coefficients.length; k++) sum = sum * x + coefficients[k]!;
  sum = sum * x + 0.058823529411764705;
  sum = sum * x + 0.06666666666666667;
  sum = sum * x + 0.07692307692307693;
  sum = sum * x + 0.09090909090909091;
  sum = sum * x + 0.1111111111111111;
  sum = sum * x + 0.14285714285714285;
  sum = sum * x + 0.2;
  sum = sum * x + 0.3333333333333333;
  sum = sum * x + 1.0;
  // const logarithm = exponent * Math.LN2 + 2 * z * polynomial(z * z, ARTANH);
  const double logarithm = exponent_1 * 0.6931471805599453 + 2.0 * z * sum;
  // return Math.sqrt(-2 * logarithm) * (y * polynomial(y * y, SINE));
  const double x_1 = y * y;
  // let sum = coefficients[0]! * x + coefficients[1]!;
  double sum_1 = 0.0011309237482517956 * x_1 + -0.012031585942120622;
  // for (let k = 2; k < coefficients.length; k++) sum = sum * x + coefficients[k]!;
  sum_1 = sum_1 * x_1 + 0.10422916220813981;
  sum_1 = sum_1 * x_1 + -0.7181223017785003;
  sum_1 = sum_1 * x_1 + 3.819952584848281;
  sum_1 = sum_1 * x_1 + -15.094642576822988;
  sum_1 = sum_1 * x_1 + 42.05869394489765;
  sum_1 = sum_1 * x_1 + -76.70585975306138;
  sum_1 = sum_1 * x_1 + 81.60524927607504;
  sum_1 = sum_1 * x_1 + -41.341702240399755;
  sum_1 = sum_1 * x_1 + 6.283185307179586;
  // return Math.sqrt(-2 * logarithm) * (y * polynomial(y * y, SINE));
  const double x_2 = sqrt(-2.0 * logarithm) * (y * sum_1);
  // if (first + i < end) values[first + i] = T(scaling[0] + scaling[1] * x);
  if (wrap_add(first, 0) < end) {
    values[first + 0] = float(scaling[0] + scaling[1] * x_2);
  }
}
