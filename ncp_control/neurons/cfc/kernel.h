// Closed-form continuous-time neurons over existing synapses (neuron.py).
//
// Both states are kept, the old one in [0, N) and the new one in [N, 2N). Python numbers the sources of synapses so
// that a synapse from an earlier layer reads the new state, and any other synapse the old one. A loop over the neurons
// in order then updates layer by layer, and a loop in reverse order takes the gradients back.
//
//     default:  y = tanh(f1) (1 - s) + s tanh(f2),   s = sigmoid(a t + b)
//     no_gate:  y = tanh(f1) + s tanh(f2)
//     pure:     y = A - A w f1,   w = exp(-t (|w_tau| + |f1|))
#pragma once

#include "../../ops/cpu/kernels/export.h"

namespace ncp {

// In the order of MODE_NAMES in kind.py.
enum Mode : int64_t { DEFAULT, NO_GATE, PURE };

// Python fills this struct (kind.py has the same names): every field has eight bytes.
// With H linear maps, weights are (H, synapses) and the bias is (H, N).
struct CfCArguments {
    int64_t synapses, sensory, mode;
    const int64_t *start, *source, *sensory_start, *sensory_source;
    const void *weight, *sensory_weight, *bias, *w_tau, *A;
    void *d_weight, *d_sensory_weight, *d_bias, *d_w_tau, *d_A;
};

template <typename T_>
struct CfC {
    typedef T_ T;
    typedef Vec<T> V;

    static constexpr bool has_row_path = false;

    const CfCArguments& p;
    const int64_t N, I, H;
    std::vector<T> weight, sensory_weight;  // (synapses, H): the maps of one synapse side by side

    CfC(const CfCArguments& arguments, const Problem& problem)
        : p(arguments), N(problem.units), I(problem.inputs), H(arguments.mode == PURE ? 1 : 4),
          weight(turned(p.weight, p.synapses)), sensory_weight(turned(p.sensory_weight, p.sensory)) {}

    std::vector<T> turned(const void* values, int64_t count) const {
        std::vector<T> out(count * H);
        for (int64_t m = 0; m < H; ++m)
            for (int64_t e = 0; e < count; ++e) out[e * H + m] = at(values, m * count + e);
        return out;
    }

    static T at(const void* values, int64_t i) { return static_cast<const T*>(values)[i]; }

    // A single row has no path of its own.
    int64_t row_scratch() const { return 0; }
    void step_row(T*, const T*, T*, T) const {}

    // Work vectors: both states, then the maps as they enter the closed form, then the gradients of both states.
    int64_t scratch_vectors(bool) const { return 2 * N + 4 * N + 2 * N; }

    // The maps of neuron j, summed over its synapses.
    template <int maps>
    NCP_INLINE void sum_maps(int64_t j, const V* both, const V* x, V* z) const {
        for (int m = 0; m < maps; ++m) z[m] = all<T>(at(p.bias, m * N + j));
        for (int64_t e = p.sensory_start[j]; e < p.sensory_start[j + 1]; ++e)
            for (int m = 0; m < maps; ++m) z[m] += sensory_weight[e * maps + m] * x[p.sensory_source[e]];
        for (int64_t e = p.start[j]; e < p.start[j + 1]; ++e)
            for (int m = 0; m < maps; ++m) z[m] += weight[e * maps + m] * both[p.source[e]];
    }

    template <bool record>
    void step(V* scratch, const V* x, V* v, V t) const {
        V *both = scratch, *maps = both + 2 * N;
        std::memcpy(both, v, N * sizeof(V));
        for (int64_t j = 0; j < N; ++j) {
            V z[4];
            if (p.mode == PURE) {
                sum_maps<1>(j, both, x, z);
                V decay = exp2<T>(t * T(-LOG2E) * (std::abs(at(p.w_tau, j)) + magnitude<T>(z[0])));
                both[N + j] = at(p.A, j) * (T(1) - decay * z[0]);
                z[1] = decay;
            } else {
                sum_maps<4>(j, both, x, z);
                z[0] = tanh<T>(z[0]);
                z[1] = tanh<T>(z[1]);
                z[3] = sigmoid<T>(z[2] * t + z[3]);
                both[N + j] = (p.mode == NO_GATE ? z[0] : z[0] * (T(1) - z[3])) + z[3] * z[1];
            }
            if (record)
                for (int m = 0; m < 4; ++m) maps[4 * j + m] = z[m];
        }
        std::memcpy(v, both + N, N * sizeof(V));
    }

    // Sums: the weights' gradients (synapses, H), the sensory weights', the biases' (N, H), then d w_tau and d A.
    int64_t accumulators() const { return H * (p.synapses + p.sensory + N) + 2 * N; }

    V step_back(V* scratch, const V* x, V* g, V* dx, V t, V* sums) const {
        V *both = scratch, *maps = both + 2 * N, *d_both = maps + 4 * N;
        V *d_weight = sums, *d_sensory = d_weight + H * p.synapses, *d_bias = d_sensory + H * p.sensory,
          *d_w_tau = d_bias + H * N, *d_A = d_w_tau + N;
        std::memset(d_both, 0, N * sizeof(V));
        std::memcpy(d_both + N, g, N * sizeof(V));
        V d_t = {};
        for (int64_t j = N - 1; j >= 0; --j) {
            const V* z = maps + 4 * j;
            const V gj = d_both[N + j];
            V dz[4];
            if (p.mode == PURE) {
                const V f1 = z[0], decay = z[1];
                const T w_tau = at(p.w_tau, j), A = at(p.A, j);
                V d_power = gj * A * f1 * decay;  // gradient of t (|w_tau| + |f1|)
                V sign = f1 > all<T>(0) ? all<T>(1) : (f1 < all<T>(0) ? all<T>(-1) : V{});
                dz[0] = -gj * A * decay + d_power * t * sign;
                d_A[j] += gj * (T(1) - decay * f1);
                d_w_tau[j] += d_power * t * T((w_tau > 0) - (w_tau < 0));
                d_t += d_power * (std::abs(w_tau) + magnitude<T>(f1));
                give_back<1>(j, dz, x, dx, both, d_both, d_weight, d_sensory, d_bias);
            } else {
                const V f1 = z[0], f2 = z[1], a = z[2], s = z[3];
                V share = p.mode == NO_GATE ? gj : gj * (T(1) - s);
                V ds = gj * (p.mode == NO_GATE ? f2 : f2 - f1);
                dz[0] = share * (T(1) - f1 * f1);
                dz[1] = gj * s * (T(1) - f2 * f2);
                dz[3] = ds * s * (T(1) - s);
                dz[2] = dz[3] * t;
                d_t += dz[3] * a;
                give_back<4>(j, dz, x, dx, both, d_both, d_weight, d_sensory, d_bias);
            }
        }
        std::memcpy(g, d_both, N * sizeof(V));
        return d_t;
    }

    template <int maps>
    NCP_INLINE void give_back(int64_t j, const V* dz, const V* x, V* dx, const V* both, V* d_both, V* d_weight,
                              V* d_sensory, V* d_bias) const {
        for (int m = 0; m < maps; ++m) d_bias[j * maps + m] += dz[m];
        for (int64_t e = p.sensory_start[j]; e < p.sensory_start[j + 1]; ++e) {
            const int64_t i = p.sensory_source[e];
            V back = {};
            for (int m = 0; m < maps; ++m) {
                d_sensory[e * maps + m] += dz[m] * x[i];
                back += sensory_weight[e * maps + m] * dz[m];
            }
            dx[i] += back;
        }
        for (int64_t e = p.start[j]; e < p.start[j + 1]; ++e) {
            const int64_t i = p.source[e];
            V back = {};
            for (int m = 0; m < maps; ++m) {
                d_weight[e * maps + m] += dz[m] * both[i];
                back += weight[e * maps + m] * dz[m];
            }
            d_both[i] += back;
        }
    }

    void finish(const double* sums) {
        const double *d_weight = sums, *d_sensory = d_weight + H * p.synapses, *d_bias = d_sensory + H * p.sensory,
                     *d_w_tau = d_bias + H * N, *d_A = d_w_tau + N;
        turn_back(p.d_weight, d_weight, p.synapses);
        turn_back(p.d_sensory_weight, d_sensory, p.sensory);
        turn_back(p.d_bias, d_bias, N);
        for (int64_t j = 0; j < N; ++j) {
            if (p.d_w_tau) put(p.d_w_tau, j, d_w_tau[j]);
            if (p.d_A) put(p.d_A, j, d_A[j]);
        }
    }

    void turn_back(void* values, const double* sums, int64_t count) const {
        for (int64_t m = 0; m < H; ++m)
            for (int64_t e = 0; e < count; ++e) put(values, m * count + e, sums[e * H + m]);
    }

    static void put(void* values, int64_t i, double value) { static_cast<T*>(values)[i] = T(value); }
};

}  // namespace ncp

NCP_CELL(ncp_cfc, CfC, CfCArguments)
