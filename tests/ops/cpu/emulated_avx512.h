// Stand-ins for the AVX-512 instructions that kernels/lanes.h names, so that a processor without them can run that
// level's code: the compiler takes its vectors of 64 bytes apart by itself. They treat NaN, infinity and numbers too
// small for a float as the instructions do while denormal numbers are taken for zero, which the kernels ask for.
#pragma once

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace emulated {

constexpr int LANES = 16;
typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));

inline float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

template <class Function>
inline __m512 each(Function function) {
    Floats result;
    for (int lane = 0; lane < LANES; ++lane) result[lane] = function(lane);
    return (__m512)result;
}

inline __m512 set1(float x) {
    return each([=](int) { return x; });
}

// Both return the second operand where either is NaN.
inline __m512 min(__m512 one, __m512 other) {
    return each([=](int k) { return ((Floats)one)[k] < ((Floats)other)[k] ? ((Floats)one)[k] : ((Floats)other)[k]; });
}
inline __m512 max(__m512 one, __m512 other) {
    return each([=](int k) { return ((Floats)one)[k] > ((Floats)other)[k] ? ((Floats)one)[k] : ((Floats)other)[k]; });
}

inline __m512 sub(__m512 one, __m512 other) { return (__m512)((Floats)one - (Floats)other); }

// x minus the nearest whole number; 0 for infinity.
inline __m512 reduce(__m512 values, int) {
    return each([=](int k) {
        const float x = ((Floats)values)[k];
        return std::isinf(x) ? 0.0f : x - std::nearbyint(x);
    });
}

// x 2^floor(n).
inline __m512 scalef(__m512 values, __m512 exponents) {
    return each([=](int k) {
        const float x = ((Floats)values)[k], n = std::floor(((Floats)exponents)[k]);
        if (std::isnan(x) || std::isnan(n)) return x + n;
        return flushed(std::ldexp(x, n < -999 ? -999 : n > 999 ? 999 : int(n)));
    });
}

// 1 / x off by up to 2^-14 of it, in a way that depends on the digits of x; exact for powers of two.
inline __m512 rcp14(__m512 values) {
    return each([=](int k) {
        const float x = flushed(((Floats)values)[k]);
        uint32_t bits;
        std::memcpy(&bits, &x, sizeof(bits));
        const uint32_t digits = bits & 0x7fffff, mixed = digits * 2654435761u;
        const double off = digits ? mixed * 0x1p-31 - 1.0 : 0.0;
        return flushed(float(1.0 / x * (1.0 + off * 0x1p-14)));
    });
}

inline Ints loadu(const void* from) {
    Ints values;
    std::memcpy(&values, from, sizeof(values));
    return values;
}

inline __m512 gather(Ints index, const float* from, int) {
    return each([=](int k) { return from[index[k]]; });
}

}  // namespace emulated

#define __AVX512F__ 1
#define _mm512_set1_ps emulated::set1
#define _mm512_min_ps emulated::min
#define _mm512_max_ps emulated::max
#define _mm512_sub_ps emulated::sub
#define _mm512_reduce_ps emulated::reduce
#define _mm512_scalef_ps emulated::scalef
#define _mm512_rcp14_ps emulated::rcp14
#define _mm512_loadu_si512 emulated::loadu
#define _mm512_i32gather_ps emulated::gather
