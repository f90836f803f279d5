/* What benchmark_export.py times: the exported controller, and loops over as many sigmoids with nothing around them.

   It is compiled together with the exported controller.c, with the same flags, into one library. */

#define _POSIX_C_SOURCE 199309L
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "controller.h"

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e6 * (double)time.tv_sec + 1e-3 * (double)time.tv_nsec;
}

/* Takes `steps` steps through `count` observations, over and over; returns microseconds a step. */
double time_controller(int steps, const controller_real *observations, int count, controller_real *action) {
    static controller_state state;
    controller_reset(&state);
    const double start = now();
    for (int step = 0; step < steps; step++) {
        controller_step(&state, observations + (step % count) * CONTROLLER_SENSORS, 1, action);
    }
    return (now() - start) / steps;
}

/* The same work as plain arrays, without indices: sum w_k sigmoid(sigma_k x_k - shift_k) over all k, with the exp of
   the C library. Four sums, so that no addition waits for the one before. */
static float sum_library(int count, const float *x, const float *sigma, const float *shift, const float *w) {
    float sums[4] = {0, 0, 0, 0};
    int k = 0;
    for (; k + 4 <= count; k += 4) {
        for (int lane = 0; lane < 4; lane++) {
            sums[lane] += w[k + lane] / (1.0f + expf(shift[k + lane] - sigma[k + lane] * x[k + lane]));
        }
    }
    for (; k < count; k++) sums[0] += w[k] / (1.0f + expf(shift[k] - sigma[k] * x[k]));
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/* The same with an exp that the compiler can compute for several numbers at once, because it has no branches, no calls
   and no comparisons of floats: exp(x) = 2^n e^f with n whole and |f| <= log(2) / 2, and the series of e^f up to f^6,
   which is right to 2e-7. Arguments beyond -87 and 87 are taken for these; adding 1.5 * 2^23 rounds. */
static inline float exp_in_lanes(float x) {
    int32_t bits, size;
    memcpy(&bits, &x, sizeof bits);
    size = bits & 0x7FFFFFFF;
    size = size > 0x42AE0000 ? 0x42AE0000 : size; /* the bits of 87.0f */
    bits = size | (bits & INT32_MIN);
    memcpy(&x, &bits, sizeof x);
    const float rounded = x * 1.44269504f + 12582912.0f;
    int32_t whole;
    memcpy(&whole, &rounded, sizeof whole);
    const float n = rounded - 12582912.0f;
    const float f = (x - n * 0.693359375f) + n * 2.12194440e-4f; /* log(2) in two parts, so that n log(2) is exact */
    const float series =
        1.0f + f * (1.0f + f * (0.5f + f * (1.0f / 6 + f * (1.0f / 24 + f * (1.0f / 120 + f * (1.0f / 720))))));
    bits = (int32_t)((uint32_t)(whole - 0x4B400000 + 127) << 23);
    float power;
    memcpy(&power, &bits, sizeof power);
    return power * series;
}

#define BLOCK 64

static float sum_in_lanes(int count, const float *x, const float *sigma, const float *shift, const float *w) {
    float sum = 0;
    for (int first = 0; first < count; first += BLOCK) {
        const int size = count - first < BLOCK ? count - first : BLOCK;
        float terms[BLOCK] = {0};
        for (int k = 0; k < size; k++) {
            terms[k] = w[first + k] / (1.0f + exp_in_lanes(shift[first + k] - sigma[first + k] * x[first + k]));
        }
        for (int half = BLOCK / 2; half > 0; half /= 2) {
            for (int k = 0; k < half; k++) terms[k] += terms[half + k];
        }
        sum += terms[0];
    }
    return sum;
}

/* Computes `sensory` sigmoids once and `synapses` sigmoids `unfolds` times, `steps` times over; returns microseconds a
   step. `arrays` has x, sigma, shift and w, each of the length of both together. */
double time_sigmoids(int steps, int sensory, int synapses, int unfolds, int lanes, float *arrays, float *result) {
    const int all = sensory + synapses;
    float *const x = arrays;
    float total = 0;
    const float *const sigma = x + all, *const shift = sigma + all, *const w = shift + all;
    float (*const sum)(int, const float *, const float *, const float *, const float *) =
        lanes ? sum_in_lanes : sum_library;
    const double start = now();
    for (int step = 0; step < steps; step++) {
        x[step % all] = 1e-3f * total; /* so that no step can be left out */
        total = sum(sensory, x, sigma, shift, w);
        for (int unfold = 0; unfold < unfolds; unfold++) {
            x[sensory + unfold] = 1e-3f * total;
            total += sum(synapses, x + sensory, sigma + sensory, shift + sensory, w + sensory);
        }
    }
    *result = total;
    return (now() - start) / steps;
}
