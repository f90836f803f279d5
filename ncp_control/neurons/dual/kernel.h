// Liquid neurons with two weights a synapse over existing synapses (neuron.py).
//
// Both states are kept, the old one in [0, N) and the new one in [N, 2N), and numbered as for a CfC (its kernel.h): a
// loop over the neurons in order updates layer by layer, and a loop in reverse order takes the gradients back.
//
//     y = x + l (m - x),   m = tanh(f - b x),   b = 0.9 sigmoid(brake_raw),
//     k = exp(-t / tau),   l = 1 - k,   log tau = s low + (1 - s) high,   s = sigmoid(g)
#pragma once

#include "../../ops/cpu/kernels/export.h"

namespace ncp {

// Python fills this struct (kind.py has the same names): every field has eight bytes.
// Weights are (2, synapses) and the bias is (2, N), those of f before those of g; log_tau has two numbers, low and high.
struct DualArguments {
    int64_t synapses, sensory;
    const int64_t *start, *source, *sensory_start, *sensory_source;
    const void *weight, *sensory_weight, *bias, *brake_raw, *log_tau;
    void *d_weight, *d_sensory_weight, *d_bias, *d_brake_raw, *d_log_tau;
};

template <typename T_>
struct Dual {
    typedef T_ T;
    typedef Vec<T> V;

    static constexpr bool has_row_path = false;
    static constexpr T STRONGEST = T(0.9);  // BRAKE in neuron.py

    const DualArguments& p;
    const int64_t N, I;
    const T low, high;
    std::vector<T> brake;  // b of every neuron

    Dual(const DualArguments& arguments, const Problem& problem)
        : p(arguments), N(problem.units), I(problem.inputs), low(at(p.log_tau, 0)), high(at(p.log_tau, 1)), brake(N) {
        if (p.brake_raw)
            for (int64_t j = 0; j < N; ++j) brake[j] = STRONGEST / (T(1) + std::exp(-at(p.brake_raw, j)));
    }

    static T at(const void* values, int64_t i) { return static_cast<const T*>(values)[i]; }

    // A single row has no path of its own.
    int64_t row_scratch() const { return 0; }
    void step_row(T*, const T*, T*, T) const {}

    // Work vectors: both states, then m, s, 1 / tau, k and l of every neuron, then the gradients of both states.
    int64_t scratch_vectors(bool) const { return 2 * N + 5 * N + 2 * N; }

    template <bool record>
    void step(V* scratch, const V* x, V* v, V t) const {
        V *both = scratch, *kept = both + 2 * N;
        const T *weight = static_cast<const T*>(p.weight), *sensory = static_cast<const T*>(p.sensory_weight);
        std::memcpy(both, v, N * sizeof(V));
        for (int64_t j = 0; j < N; ++j) {
            V f = all<T>(at(p.bias, j)), g = all<T>(at(p.bias, N + j));
            for (int64_t e = p.sensory_start[j]; e < p.sensory_start[j + 1]; ++e) {
                const V source = x[p.sensory_source[e]];
                f += sensory[e] * source;
                g += sensory[p.sensory + e] * source;
            }
            for (int64_t e = p.start[j]; e < p.start[j + 1]; ++e) {
                const V source = both[p.source[e]];
                f += weight[e] * source;
                g += weight[p.synapses + e] * source;
            }
            if (p.brake_raw) f -= brake[j] * both[j];
            const V m = tanh<T>(f), s = sigmoid<T>(g);
            const V rate = exp2<T>(T(-LOG2E) * (high + (low - high) * s));
            const Decay<T> decay = decay_exp2<T>(T(-LOG2E) * t * rate);
            both[N + j] = both[j] + decay.taken * (m - both[j]);
            if (record) {
                kept[5 * j] = m;
                kept[5 * j + 1] = s;
                kept[5 * j + 2] = rate;
                kept[5 * j + 3] = decay.kept;
                kept[5 * j + 4] = decay.taken;
            }
        }
        std::memcpy(v, both + N, N * sizeof(V));
    }

    // Sums: the gradients of the weights, the sensory weights and the biases, then of the brakes and of log_tau.
    int64_t accumulators() const { return 2 * (p.synapses + p.sensory + N) + N + 2; }

    V step_back(V* scratch, const V* x, V* g, V* dx, V t, V* sums) const {
        V *both = scratch, *kept = both + 2 * N, *d_both = kept + 5 * N;
        V *d_weight = sums, *d_sensory = d_weight + 2 * p.synapses, *d_bias = d_sensory + 2 * p.sensory,
          *d_brake = d_bias + 2 * N, *d_log_tau = d_brake + N;
        const T *weight = static_cast<const T*>(p.weight), *sensory = static_cast<const T*>(p.sensory_weight);
        std::memset(d_both, 0, N * sizeof(V));
        std::memcpy(d_both + N, g, N * sizeof(V));
        V d_t = {};
        for (int64_t j = N - 1; j >= 0; --j) {
            const V m = kept[5 * j], s = kept[5 * j + 1], rate = kept[5 * j + 2], k = kept[5 * j + 3], l = kept[5 * j + 4];
            const V gj = d_both[N + j], d_power = gj * k * (both[j] - m);  // gradient of -t / tau
            const V d_log = d_power * t * rate;                            // gradient of log tau
            const V df = gj * l * (T(1) - m * m), dg = d_log * (low - high) * s * (T(1) - s);
            d_t -= d_power * rate;
            d_log_tau[0] += d_log * s;
            d_log_tau[1] += d_log * (T(1) - s);
            d_bias[j] += df;
            d_bias[N + j] += dg;
            d_brake[j] -= df * both[j];
            d_both[j] += gj * k - brake[j] * df;
            for (int64_t e = p.sensory_start[j]; e < p.sensory_start[j + 1]; ++e) {
                const int64_t i = p.sensory_source[e];
                d_sensory[e] += df * x[i];
                d_sensory[p.sensory + e] += dg * x[i];
                dx[i] += sensory[e] * df + sensory[p.sensory + e] * dg;
            }
            for (int64_t e = p.start[j]; e < p.start[j + 1]; ++e) {
                const int64_t i = p.source[e];
                d_weight[e] += df * both[i];
                d_weight[p.synapses + e] += dg * both[i];
                d_both[i] += weight[e] * df + weight[p.synapses + e] * dg;
            }
        }
        std::memcpy(g, d_both, N * sizeof(V));
        return d_t;
    }

    void finish(const double* sums) {
        sums = put(p.d_weight, sums, 2 * p.synapses);
        sums = put(p.d_sensory_weight, sums, 2 * p.sensory);
        sums = put(p.d_bias, sums, 2 * N);
        if (p.d_brake_raw)
            for (int64_t j = 0; j < N; ++j)
                static_cast<T*>(p.d_brake_raw)[j] = T(sums[j] * brake[j] * (1 - brake[j] / STRONGEST));
        sums += N;
        put(p.d_log_tau, sums, 2);
    }

    // Writes `count` sums into an array, if there is one, and returns where the next ones are.
    static const double* put(void* values, const double* sums, int64_t count) {
        if (values)
            for (int64_t i = 0; i < count; ++i) static_cast<T*>(values)[i] = T(sums[i]);
        return sums + count;
    }
};

}  // namespace ncp

NCP_CELL(ncp_dual, Dual, DualArguments)
