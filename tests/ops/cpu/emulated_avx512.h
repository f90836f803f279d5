// Stand-ins for the AVX-512 instructions that kernels/lanes.h names, so that a processor without them can run that
// level's code: the compiler takes its vectors of 64 bytes apart by itself. They treat NaN, infinity and numbers too
// small for a float as the instructions do.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace emulated {

constexpr int LANES = 16;
typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef uint32_t Bits __attribute__((vector_size(64)));

inline __m512 set1(float x) { return (__m512)(Floats{} + x); }

// Both return the second operand where either is NaN.
inline __m512 min(__m512 one, __m512 other) {
    const Floats a = (Floats)one, b = (Floats)other;
    return (__m512)(a < b ? a : b);
}
inline __m512 max(__m512 one, __m512 other) {
    const Floats a = (Floats)one, b = (Floats)other;
    return (__m512)(a > b ? a : b);
}

inline __m512 sub(__m512 one, __m512 other) { return (__m512)((Floats)one - (Floats)other); }

// x minus the nearest whole number; 0 for infinity. Every number of 2^22 or more is taken for a whole one.
inline __m512 reduce(__m512 values, int) {
    const Floats x = (Floats)values, magic = Floats{} + 0x1.8p23f, fraction = x - ((x + magic) - magic);
    return (__m512)((x >= 0x1p22f) | (x <= -0x1p22f) ? Floats{} : fraction);
}

// x 2^n for a whole number n, in two steps, because 2^n alone can be too large or too small for a float.
inline __m512 scalef(__m512 values, __m512 exponents) {
    Floats n = (Floats)exponents;
    n = n < -252.0f ? Floats{} - 252.0f : n;
    n = n > 254.0f ? Floats{} + 254.0f : n;
    const Ints whole = __builtin_convertvector(n, Ints), half = whole / 2;
    const Floats scaled = (Floats)values * (Floats)((half + 127) << 23) * (Floats)((whole - half + 127) << 23);
    return (__m512)(scaled + (n - n));  // NaN where n is
}

// 1 / x off by up to 2^-14 of it, in a way that depends on the digits of x; exact for powers of two.
inline __m512 rcp14(__m512 values) {
    const Bits mixed = ((Bits)values & 0x7fffffu) * 2654435761u;
    return (__m512)(1.0f / (Floats)values * (1.0f + __builtin_convertvector((Ints)mixed, Floats) * 0x1p-45f));
}

inline Ints loadu(const void* from) {
    Ints values;
    std::memcpy(&values, from, sizeof(values));
    return values;
}

inline __m512 gather(Ints index, const float* from, int) {
    Floats values;
    for (int lane = 0; lane < LANES; ++lane) values[lane] = from[index[lane]];
    return (__m512)values;
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
