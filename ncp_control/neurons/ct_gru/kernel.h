// CT-GRU (neuron.py): every neuron has memories m_k on time scales tau_k, k = 0 .. M-1.
//
// With linear maps R and S of [x, h], one for each neuron and scale, a map Q of [x, e], one for each neuron, and
// softmax over a neuron's scales:
//
//     h = sum_k m_k,    a_k = R_k - ln tau_k,    r = softmax(-a^2),    e = sum_k r_k m_k
//     q = tanh(Q),      b_k = S_k - ln tau_k,    s = softmax(-b^2)
//     w_k = (1 - s_k) m_k + s_k q,    m_k' = w_k D_k,    D_k = exp(-elapsed / tau_k)
//
// Backward, a gradient g of m' gives for every neuron, with G_k = g_k D_k,
//
//     d elapsed -= sum_k G_k w_k / tau_k,    d q = sum_k G_k s_k,    d s_k = G_k (q - m_k),    d m_k = G_k (1 - s_k)
//     d S_k = -2 b_k s_k (d s_k - sum_l s_l d s_l),    d Q = d q (1 - q^2)
//
// then, with d e = W_Q^T d Q,
//
//     d r_k = d e m_k,    d R_k = -2 a_k r_k d e (m_k - e),    d m_k += d e r_k
//
// and last d h = W_R^T d R + W_S^T d S, which is added to every d m_k; all three maps add to d x. Python (kind.py)
// computes the gradients of the weights, as it does for an LSTM: the kernel writes those of the maps, and e with them.
#pragma once

#include "../../ops/cpu/kernels/export.h"

namespace ncp {

// Python fills this struct (kind.py has the same names): every field has eight bytes.
// With F = I + U the weights are (U M, F), (U, F) and (U M, F).
struct CTGRUArguments {
    int64_t synapses, sensory, scales;
    const void *retrieve, *retrieve_bias, *detect, *detect_bias, *store, *store_bias;
    void* d_maps;  // d R, d S (U M), d Q, e (U): (B, T, 2 U M + 2 U), in the backward pass only
};

template <typename T_>
struct CTGRU {
    typedef T_ T;
    typedef Vec<T> V;

    static constexpr bool has_row_path = false;
    static constexpr int K = 8;  // the sums of so many maps or sources fit in the registers together

    const CTGRUArguments& p;
    const Problem& problem;
    const int64_t N, I, M, U, F;
    std::vector<T> rate, log_tau;  // 1 / tau and ln tau, (M,)

    CTGRU(const CTGRUArguments& arguments, const Problem& given)
        : p(arguments), problem(given), N(given.units), I(given.inputs), M(arguments.scales), U(N / M), F(I + U),
          rate(M), log_tau(M) {
        for (int64_t k = 0; k < M; ++k) {
            rate[k] = T(std::pow(10.0, -0.5 * k));
            log_tau[k] = T(0.5 * k * std::log(10.0));
        }
    }

    // A single row has no path of its own.
    int64_t row_scratch() const { return 0; }
    void step_row(T*, const T*, T*, T) const {}

    // Work vectors; those that write_back stores come first. R, S and Q hold a, b and q until the backward pass.
    int64_t scratch_vectors(bool) const { return 5 * N + 2 * U + F + 2 * M; }

    struct Work {
        V *R, *S, *Q, *e, *r, *s, *old, *sources, *decay, *ds;
    };

    Work carve(V* at) const {
        Work k;
        k.R = at;
        k.S = k.R + N;
        k.Q = k.S + N;
        k.e = k.Q + U;
        k.r = k.e + U;
        k.s = k.r + N;
        k.old = k.s + N;
        k.sources = k.old + N;
        k.decay = k.sources + F;
        k.ds = k.decay + M;
        return k;
    }

    template <int maps>
    NCP_INLINE void map_some(const T* weight, const T* bias, const V* source, V* out) const {
        V sum[maps];
        for (int m = 0; m < maps; ++m) sum[m] = all<T>(bias[m]);
        for (int64_t i = 0; i < F; ++i)
            for (int m = 0; m < maps; ++m) sum[m] += weight[m * F + i] * source[i];
        std::memcpy(out, sum, sizeof(sum));
    }

    // Computes `count` linear maps of F sources.
    void map(const void* weight, const void* bias, int64_t count, const V* source, V* out) const {
        const T *w = static_cast<const T*>(weight), *b = static_cast<const T*>(bias);
        int64_t m = 0;
        for (; m + K <= count; m += K) map_some<K>(w + m * F, b + m, source, out + m);
        for (; m < count; ++m) map_some<1>(w + m * F, b + m, source, out + m);
    }

    template <int sources>
    NCP_INLINE void back_some(const T* weight, int64_t count, const V* d_map, V* grad) const {
        V sum[sources] = {};
        for (int64_t m = 0; m < count; ++m)
            for (int i = 0; i < sources; ++i) sum[i] += weight[m * F + i] * d_map[m];
        for (int i = 0; i < sources; ++i) grad[i] += sum[i];
    }

    // Adds to the gradients of the sources what flows back from a map; x is left out where its gradient is not wanted.
    void back_to_sources(const void* weight, int64_t count, const V* d_map, V* grad) const {
        const T* w = static_cast<const T*>(weight);
        int64_t i = problem.grad_x ? 0 : I;
        for (; i + K <= F; i += K) back_some<K>(w + i, count, d_map, grad + i);
        for (; i < F; ++i) back_some<1>(w + i, count, d_map, grad + i);
    }

    // Turns maps into their distances from the scales, and these into weights, softmax(-distance^2) over each neuron's
    // scales. With n the distance nearest to zero, n^2 - distance^2 is computed as a product, which is never positive,
    // however large both are.
    void weigh(V* distance, V* weight) const {
        constexpr int E = NCP_VECTOR_BYTES == 64 ? 4 : 2;
        for (int64_t u = 0; u < N; u += M) {
            V n = distance[u];  // log_tau[0] is zero
            for (int64_t k = 1; k < M; ++k) {
                distance[u + k] -= log_tau[k];
                n = magnitude<T>(distance[u + k]) < magnitude<T>(n) ? distance[u + k] : n;
            }
            for (int64_t k = 0; k < M; ++k)
                weight[u + k] = (n - distance[u + k]) * (n + distance[u + k]) * T(LOG2E);
        }
        int64_t j = 0;
        for (; j + E <= N; j += E) exp2_many<T, E>(weight + j);
        for (; j < N; ++j) weight[j] = exp2<T>(weight[j]);
        for (int64_t u = 0; u < N; u += M) {
            V total = {};
            for (int64_t k = 0; k < M; ++k) total += weight[u + k];
            for (int64_t k = 0; k < M; ++k) weight[u + k] /= total;
        }
    }

    // exp(-elapsed / tau) of every scale, by the C library, because an error here returns in every step.
    void decays(V elapsed, V* decay) const {
        for (int64_t m = 0; m < M; ++m)
            for (int lane = 0; lane < Lanes<T>::W; ++lane) decay[m][lane] = std::exp(-elapsed[lane] * rate[m]);
    }

    template <bool record>
    void step(V* scratch, const V* x, V* v, V elapsed) const {
        const Work k = carve(scratch);
        if (record) std::memcpy(k.old, v, N * sizeof(V));
        V* last = k.sources + I;  // the sources behind x: first h, then e
        std::memcpy(k.sources, x, I * sizeof(V));
        for (int64_t u = 0; u < U; ++u) {
            last[u] = V{};
            for (int64_t i = u * M; i < (u + 1) * M; ++i) last[u] += v[i];
        }
        map(p.retrieve, p.retrieve_bias, N, k.sources, k.R);
        map(p.store, p.store_bias, N, k.sources, k.S);
        weigh(k.R, k.r);
        weigh(k.S, k.s);
        for (int64_t u = 0; u < U; ++u) {
            k.e[u] = V{};
            for (int64_t i = u * M; i < (u + 1) * M; ++i) k.e[u] += k.r[i] * v[i];
        }
        std::memcpy(last, k.e, U * sizeof(V));
        map(p.detect, p.detect_bias, U, k.sources, k.Q);
        decays(elapsed, k.decay);
        for (int64_t u = 0; u < U; ++u) {
            k.Q[u] = tanh<T>(k.Q[u]);
            for (int64_t m = 0, i = u * M; m < M; ++m, ++i)
                v[i] = ((T(1) - k.s[i]) * v[i] + k.s[i] * k.Q[u]) * k.decay[m];
        }
    }

    // Sums: none; the weights' gradients are made of d_maps.
    int64_t accumulators() const { return 0; }
    void finish(const double*) const {}

    V step_back(V* scratch, const V*, V* g, V* dx, V, V*) const {
        const Work k = carve(scratch);
        V d_elapsed = {}, *last = k.sources + I;
        for (int64_t u = 0; u < U; ++u) {
            const V q = k.Q[u];
            V dq = {}, mean = {};
            for (int64_t m = 0, i = u * M; m < M; ++m, ++i) {
                const V memory = k.old[i], s = k.s[i];
                g[i] *= k.decay[m];
                d_elapsed -= g[i] * ((T(1) - s) * memory + s * q) * rate[m];
                dq += g[i] * s;
                k.ds[m] = g[i] * (q - memory);
                mean += s * k.ds[m];
                g[i] *= T(1) - s;
            }
            for (int64_t m = 0, i = u * M; m < M; ++m, ++i) k.S[i] *= T(-2) * k.s[i] * (k.ds[m] - mean);
            k.Q[u] = dq * (T(1) - q * q);
        }
        std::memset(k.sources, 0, F * sizeof(V));
        back_to_sources(p.detect, U, k.Q, k.sources);
        for (int64_t u = 0; u < U; ++u) {
            const V de = last[u];
            for (int64_t i = u * M; i < (u + 1) * M; ++i) {
                k.R[i] *= T(-2) * k.r[i] * de * (k.old[i] - k.e[u]);
                g[i] += de * k.r[i];
            }
            last[u] = V{};
        }
        back_to_sources(p.retrieve, N, k.R, k.sources);
        back_to_sources(p.store, N, k.S, k.sources);
        for (int64_t u = 0; u < U; ++u)
            for (int64_t i = u * M; i < (u + 1) * M; ++i) g[i] += last[u];
        std::memcpy(dx, k.sources, I * sizeof(V));
        return d_elapsed;
    }

    // Stores the gradients of the maps, and e, of `rows` rows at step t.
    void write_back(const V* scratch, int64_t row, int64_t t, int rows) const {
        const int64_t count = 2 * (N + U), time = problem.time;
        store_rows<T>(scratch, static_cast<T*>(p.d_maps) + (row * time + t) * count, time * count, rows, count);
    }
};

template <typename T>
constexpr bool writes_back<CTGRU<T>> = true;

}  // namespace ncp

NCP_CELL(ncp_ctgru, CTGRU, CTGRUArguments)
