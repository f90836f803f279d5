// The best machine level that this processor and its operating system can run.
//
// The compilers' __builtin_cpu_supports would say it too, but it reads a table of the compiler's own run-time library,
// which stays empty where the library is linked by another one.
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace ncp {

enum Level { portable = 0, avx2 = 1, avx512 = 2 };

#if defined(__x86_64__)

inline Level best_level() {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_FMA)) return portable;
    // XCR0 says which registers the operating system saves: bits 1 and 2 are SSE and AVX, 5 to 7 are AVX-512's.
    unsigned saved, high;
    __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    constexpr unsigned ymm = 0x06, zmm = 0xe6;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (saved & ymm) != ymm || !(b & bit_AVX2)) return portable;
    constexpr unsigned wanted = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    return (saved & zmm) == zmm && (b & wanted) == wanted ? avx512 : avx2;
}

#else

inline Level best_level() { return portable; }

#endif

}  // namespace ncp
