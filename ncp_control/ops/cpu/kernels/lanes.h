// Vectors of batch rows ("lanes") and the functions on them that the cells need.
//
// One source serves every machine: NCP_VECTOR_BYTES is 64 (AVX-512), 32 (AVX2) or 16 (SSE2, NEON), and the
// compiler's vector types do the rest. Only a few float32 shortcuts are written with intrinsics.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#ifndef NCP_VECTOR_BYTES
#define NCP_VECTOR_BYTES 16
#endif

#define NCP_INLINE inline __attribute__((always_inline))

namespace ncp {

typedef float FloatLanes __attribute__((vector_size(NCP_VECTOR_BYTES)));
typedef double DoubleLanes __attribute__((vector_size(NCP_VECTOR_BYTES)));
typedef int32_t Int32Lanes __attribute__((vector_size(NCP_VECTOR_BYTES)));
typedef int64_t Int64Lanes __attribute__((vector_size(NCP_VECTOR_BYTES)));

template <typename T>
struct Lanes;

template <>
struct Lanes<float> {
    typedef FloatLanes V;
    typedef Int32Lanes I;
    static constexpr int W = NCP_VECTOR_BYTES / 4;
    static constexpr int mantissa_bits = 23;
    static constexpr float round_magic = 12583039.0f;  // 1.5 * 2^23 + 127: adding it rounds to an integer
    static constexpr int exponent_bias = 127;
};

template <>
struct Lanes<double> {
    typedef DoubleLanes V;
    typedef Int64Lanes I;
    static constexpr int W = NCP_VECTOR_BYTES / 8;
    static constexpr int mantissa_bits = 52;
    static constexpr double round_magic = 6755399441056767.0;  // 1.5 * 2^52 + 1023
    static constexpr int exponent_bias = 1023;
};

template <typename T>
using Vec = typename Lanes<T>::V;

// The same value in every lane.
template <typename T>
NCP_INLINE Vec<T> all(T value) {
    return Vec<T>{} + value;
}

// `low` where x is below it, `high` where x is above it, and x otherwise; NaN stays NaN.
template <typename T>
NCP_INLINE Vec<T> clamp(Vec<T> x, T low, T high) {
    x = x < all<T>(low) ? all<T>(low) : x;
    return x > all<T>(high) ? all<T>(high) : x;
}

#if defined(__AVX512F__)
template <>
NCP_INLINE FloatLanes clamp<float>(FloatLanes x, float low, float high) {
    // these instructions return their second operand where either operand is NaN
    return (FloatLanes)_mm512_min_ps(_mm512_set1_ps(high), _mm512_max_ps(_mm512_set1_ps(low), (__m512)x));
}
#elif defined(__AVX2__)
template <>
NCP_INLINE FloatLanes clamp<float>(FloatLanes x, float low, float high) {
    return (FloatLanes)_mm256_min_ps(_mm256_set1_ps(high), _mm256_max_ps(_mm256_set1_ps(low), (__m256)x));
}
#endif

// Coefficients of a polynomial for 2^f, f in [-1/2, 1/2], from the highest power. They minimise the largest relative
// error, which is 9.1e-8 for degree 5 and 3.1e-18 for degree 11; 2^0 is 1, so that no state moves while no time passes.
template <typename T>
struct Exp2;

template <>
struct Exp2<float> {
    static constexpr int degree = 5;
    static constexpr float c[] = {0.00132647272471f, 0.00967151268815f, 0.0555073374357f,
                                  0.240222420846f,   0.693146977599f,   1.0f};
};

template <>
struct Exp2<double> {
    static constexpr int degree = 11;
    static constexpr double c[] = {4.4352809446103361611e-10, 7.0741056262456593708e-9, 1.0178198033328527662e-7,
                                   1.3215433089594629037e-6,  0.0000152527334899608046, 0.00015403530462514613026,
                                   0.0013333558146789950323,  0.0096181291075883350833, 0.055504108664819921483,
                                   0.24022650695910156205,    0.69314718055994533046,   0.9999999999999999971};
};

// The exponents of the smallest normal number and of the largest power of two.
template <typename T>
constexpr T least_exponent = T(1 - Lanes<T>::exponent_bias);
template <typename T>
constexpr T most_exponent = T(Lanes<T>::exponent_bias);

// A number as a fraction f in [-1/2, 1/2] and a whole number n: `split` makes them from x, `join` multiplies 2^f by
// 2^n. The result is a normal number whatever x is, and NaN for NaN.
template <typename T>
struct Split {
    Vec<T> f, n;
};

template <typename T>
NCP_INLINE Split<T> split(Vec<T> x) {
    x = clamp<T>(x, least_exponent<T>, most_exponent<T>);
    Vec<T> shifted = x + Lanes<T>::round_magic;
    return {x - (shifted - Lanes<T>::round_magic), shifted};
}

// A product, although adding n to the exponent's bits would be cheaper: it would make a number of a NaN with a payload.
template <typename T>
NCP_INLINE Vec<T> join(Vec<T> p, Vec<T> shifted) {
    typedef typename Lanes<T>::I I;
    constexpr int bits = Lanes<T>::mantissa_bits;
    const I exponent = (I)shifted << bits;  // the magic number has added the bias
    return p * (Vec<T>)exponent;
}

#if defined(__AVX512F__)
template <>
NCP_INLINE Split<float> split<float>(FloatLanes x) {
    // for a very negative x the scaling itself gives 0
    __m512 t = _mm512_min_ps(_mm512_set1_ps(most_exponent<float>), (__m512)x);
    __m512 f = _mm512_reduce_ps(t, 0);
    return {(FloatLanes)f, (FloatLanes)_mm512_sub_ps(t, f)};
}

template <>
NCP_INLINE FloatLanes join<float>(FloatLanes p, FloatLanes n) {
    return (FloatLanes)_mm512_scalef_ps((__m512)p, (__m512)n);
}
#endif

template <typename T>
NCP_INLINE Vec<T> reciprocal(Vec<T> x) {
    return T(1) / x;
}

#if defined(__AVX512F__)
// An estimate with an error of 2^-14 and one Newton step, so that 1 / 1 is 1 and a closed gate has no slope. AVX2's own
// estimate, with an error of 2^-11, would not do. x is a normal number; where it is above 2^126, the result
// would be denormal, and is 0.
template <>
NCP_INLINE FloatLanes reciprocal<float>(FloatLanes x) {
    FloatLanes r = (FloatLanes)_mm512_rcp14_ps((__m512)x);
    return r * (2.0f - x * r);
}
#endif

// 2^x for K vectors at once, with x taken into the range of exponents first: each operation runs on all of them before
// the next one starts, so that the processor does not wait for a single chain of operations.
template <typename T, int K>
NCP_INLINE void exp2_in_range_many(Vec<T>* x) {
    Vec<T> f[K], n[K];
    for (int k = 0; k < K; ++k) {
        Split<T> parts = split<T>(x[k]);
        f[k] = parts.f;
        n[k] = parts.n;
        x[k] = all<T>(Exp2<T>::c[0]);
    }
    for (int power = 1; power <= Exp2<T>::degree; ++power)
        for (int k = 0; k < K; ++k) x[k] = x[k] * f[k] + Exp2<T>::c[power];
    for (int k = 0; k < K; ++k) x[k] = join<T>(x[k], n[k]);
}

// 1 / (1 + 2^x) for K vectors at once: the logistic function of -x ln 2. It is exactly 0 and 1 far out, because a slope
// of 1e-38 times an input of 1e38 would be a gradient.
template <typename T, int K>
NCP_INLINE void sigmoid_exp2_many(Vec<T>* x) {
    exp2_in_range_many<T, K>(x);
    for (int k = 0; k < K; ++k) x[k] = reciprocal<T>(T(1) + x[k]);
}

// 2^x for K vectors at once, x at most 127 (1023 in double precision), and 0 where that is below the normal numbers:
// 2^-inf times an infinite number is NaN, as everywhere else.
template <typename T, int K>
NCP_INLINE void exp2_many(Vec<T>* x) {
    Vec<T> power[K];
    for (int k = 0; k < K; ++k) power[k] = x[k];
    exp2_in_range_many<T, K>(power);
    for (int k = 0; k < K; ++k) x[k] = x[k] < all<T>(least_exponent<T>) ? Vec<T>{} : power[k];
}

template <typename T>
NCP_INLINE Vec<T> exp2(Vec<T> x) {
    exp2_many<T, 1>(&x);
    return x;
}

template <typename T>
NCP_INLINE Vec<T> sigmoid_exp2(Vec<T> x) {
    sigmoid_exp2_many<T, 1>(&x);
    return x;
}

// What a decay keeps of a difference, 2^x, and what it takes away, 1 - 2^x. Each is right to a few roundings of itself.
template <typename T>
struct Decay {
    Vec<T> kept, taken;
};

// The parts of a decay by 2^x, x <= 0. With 2^x = 2^n (1 + f q(f)) no digits of a small 1 - 2^x are lost, because n is
// then 0 and 1 - 2^n is exact.
template <typename T>
NCP_INLINE Decay<T> decay_exp2(Vec<T> x) {
    const Split<T> parts = split<T>(x);
    Vec<T> q = all<T>(Exp2<T>::c[0]);
    for (int power = 1; power < Exp2<T>::degree; ++power) q = q * parts.f + Exp2<T>::c[power];
    const Vec<T> scale = join<T>(all<T>(1), parts.n), moved = q * parts.f;
    return {x < all<T>(least_exponent<T>) ? Vec<T>{} : scale * moved + scale, (T(1) - scale) - scale * moved};
}

constexpr double LOG2E = 1.4426950408889634074;
constexpr double LN2 = 0.69314718055994530942;

template <typename T>
NCP_INLINE Vec<T> sigmoid(Vec<T> x) {
    return sigmoid_exp2<T>(x * T(-LOG2E));
}

template <typename T>
NCP_INLINE Vec<T> tanh(Vec<T> x) {
    return T(2) * sigmoid_exp2<T>(x * T(-2 * LOG2E)) - T(1);
}

template <typename T>
NCP_INLINE Vec<T> magnitude(Vec<T> x) {
    return x < all<T>(0) ? -x : x;
}

// A span of time h as s and r with h = s / r: h and 1 for a short span, 1/4 and 1 / (4 h) for a long one. A fused step
// divides by r + s rate, which then overflows for no span and no rate, and whose reciprocal is a normal number.
template <typename T>
struct Span {
    Vec<T> s, r;
};

template <typename T>
NCP_INLINE Span<T> span(Vec<T> h) {
    const Vec<T> longest_short = all<T>(0.25);
    const typename Lanes<T>::I is_long = h > longest_short;
    return {is_long ? longest_short : h, is_long ? longest_short / h : all<T>(1)};
}

// The values of an array at W positions.
template <typename T>
NCP_INLINE Vec<T> gather(const T* from, const int32_t* index) {
    Vec<T> out;
    for (int lane = 0; lane < Lanes<T>::W; ++lane) out[lane] = from[index[lane]];
    return out;
}

#if defined(__AVX512F__)
template <>
NCP_INLINE FloatLanes gather<float>(const float* from, const int32_t* index) {
    return (FloatLanes)_mm512_i32gather_ps(_mm512_loadu_si512(index), from, 4);
}
#elif defined(__AVX2__)
template <>
NCP_INLINE FloatLanes gather<float>(const float* from, const int32_t* index) {
    return (FloatLanes)_mm256_i32gather_ps(from, _mm256_loadu_si256((const __m256i*)index), 4);
}
#endif

// The sum of all lanes.
template <typename T>
NCP_INLINE double sum(Vec<T> x) {
    double total = 0;
    for (int lane = 0; lane < Lanes<T>::W; ++lane) total += x[lane];
    return total;
}

// log(1 + u) for u in [0, 1]. It is 2 atanh(y) with y = u / (2 + u), computed by its series in y^2 <= 1/9.
template <typename T>
NCP_INLINE Vec<T> log1p_unit(Vec<T> u) {
    constexpr int terms = sizeof(T) == 4 ? 8 : 17;
    Vec<T> y = u / (T(2) + u), y2 = y * y, series = all<T>(T(1) / (2 * terms + 1));
    for (int k = terms - 1; k >= 0; --k) series = series * y2 + T(1) / T(2 * k + 1);
    return T(2) * y * series;
}

// log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), plus 1e-8, as in neurons/parameters.py: x alone above 20, as torch has it.
template <typename T>
NCP_INLINE Vec<T> positive(Vec<T> x) {
    Vec<T> top = x > all<T>(0) ? x : Vec<T>{};
    Vec<T> rest = log1p_unit<T>(exp2<T>(magnitude<T>(x) * T(-LOG2E)));
    return T(1e-8) + (top + (x > all<T>(20) ? Vec<T>{} : rest));
}

// `positive` of `count` values.
template <typename T>
inline void positive_all(const void* raw, T* out, int64_t count) {
    constexpr int W = Lanes<T>::W;
    for (int64_t i = 0; i < count; i += W) {
        const size_t bytes = size_t(count - i < W ? count - i : W) * sizeof(T);
        Vec<T> x = {};
        std::memcpy(&x, static_cast<const T*>(raw) + i, bytes);
        x = positive<T>(x);
        std::memcpy(out + i, &x, bytes);
    }
}

// The derivative of softplus, for one number.
template <typename T>
inline T softplus_slope(T x) {
    return x > T(20) ? T(1) : T(1) / (T(1) + std::exp(-x));
}

}  // namespace ncp
