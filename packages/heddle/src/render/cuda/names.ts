/** Identifiers: the author's names, made legal and unique. */
import { InternalError } from '../../core/errors.js';

const words = (text: string): string[] => text.split(/\s+/).filter((w) => w !== '');

/** C++ keywords, and what CUDA C++ and our prelude define under plain names. */
const RESERVED: ReadonlySet<string> = new Set(
  words(`
  alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class co_await
  co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default delete do
  double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace
  new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires return
  short signed sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef
  typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq main restrict
  threadIdx blockIdx blockDim gridDim warpSize printf vprintf malloc free memcpy memset memmove memcmp assert clock clock64
  abs labs llabs min max fmin fminf fmax fmaxf fma fmaf fmod fmodf sqrt sqrtf rsqrt rsqrtf cbrt cbrtf exp expf exp2
  exp2f exp10 exp10f expm1 expm1f log logf log2 log2f log10 log10f log1p log1pf sin sinf cos cosf tan tanf sincos
  sincosf asin asinf acos acosf atan atanf atan2 atan2f sinh sinhf cosh coshf tanh tanhf asinh asinhf acosh acoshf
  atanh atanhf pow powf floor floorf ceil ceilf trunc truncf rint rintf round roundf lround lrint nearbyint fabs fabsf
  erf erff erfc erfcf erfinv erfinvf erfcinv normcdf normcdff normcdfinv tgamma lgamma hypot hypotf rhypot norm normf
  rnorm norm3d norm4d j0 j1 jn y0 y1 yn ldexp frexp scalbn logb ilogb modf remainder remquo fdim copysign nextafter nan
  isnan isinf isfinite signbit dim3 uint3 int2 int3 int4 uint2 uint4 float1 float2 float3 float4 double2
  double3 double4 uchar2 uchar4 char2 char4 short2 short4 ushort2 ushort4 long2 ulong2 longlong2 ulonglong2 size_t
  ptrdiff_t clock_t
  f16 bf16 dynamic_shared placed_shared idiv mod shl shr lane_id warp_id index_below nan_min nan_max wrap_add wrap_sub wrap_mul wrap_neg wrap_abs
  MessageLog message_log record_message message
  Arguments Lists lists list list_block
  TensorMap tile_descriptor arrive arrive_expect init_barrier
  round_f16 round_bf16 quotient f16_to_float float_to_f16 bf16_to_float float_to_bf16`),
);

/** Names of the prelude's vectors and generated functions, and CUDA's atomics and intrinsics. */
const RESERVED_FORM =
  /^(__.*|_[A-Z].*|atomic[A-Z_].*|warp_.*|saturate_.*|odd_.*|(tma|commit|wait|fence|swizzled|wgmma|hold|group|raise|lower)_\w+|(\w+_)?(f16|bf16|f32|f64|i8|u8|i32|u32|i64|bool)x[24])$/;

/** `name` as a C++ identifier that means nothing else. */
export function identifier(name: string): string {
  const legal = name.replace(/[^A-Za-z0-9_]/g, '_').replace(/^(?=[0-9])|^$/, '_');
  return RESERVED.has(legal) || RESERVED_FORM.test(legal) ? `${legal.replace(/^_+/, '')}_` : legal;
}

/** Names by identity of what they name; a name is free again when its scope ends. */
export class Names {
  readonly #scopes: Map<object, string>[] = [new Map()];
  readonly #taken = new Set<string>();

  /** Name `thing` for the rest of the innermost scope. */
  declare(thing: object, name: string): string {
    const base = identifier(name);
    let unique = base;
    for (let n = 1; this.#taken.has(unique); n++) unique = `${base}${base.endsWith('_') ? '' : '_'}${n}`;
    this.#taken.add(unique);
    this.#scopes.at(-1)!.set(thing, unique);
    return unique;
  }

  of(thing: object, name: string): string {
    for (let i = this.#scopes.length - 1; i >= 0; i--) {
      const found = this.#scopes[i]!.get(thing);
      if (found !== undefined) return found;
    }
    throw new InternalError(`renderCuda: ${name} is used where it is not declared`);
  }

  /** Run `body` in its own scope. */
  scoped<R>(body: () => R): R {
    this.#scopes.push(new Map());
    const result = body();
    for (const name of this.#scopes.pop()!.values()) this.#taken.delete(name);
    return result;
  }
}
