// Neurons driven by one nonlinearity of an affine map: NeuralLTC, CT-RNN and Neural ODE (neuron.py).
//
//     z = mu + gamma I + gamma_r x,    f = act(z)
//     rate = leak + liquid f,    drive = A f          liquid is 1 for NeuralLTC and 0 for the others
//
// or, with `magnitude`, rate = leak + |f|, through which f gets a gradient with the sign of f.
//     x' = x + h C (drive - rate x)
//
// with C = 1 / (1 + h rate) for the fused solver, which makes x' = (x + h drive) / (1 + h rate), and C = 1 for explicit
// Euler. So that nothing overflows, the fused solver takes h as s / r (`span` in lanes.h) and computes
// C / r = 1 / (r + s rate) and h C = s (C / r); for explicit Euler s is h and r is 1. A product with C / r, which can be
// as small as 1 / rate, comes last. Backward, with u = x' (fused) or u = x (euler), a gradient g of x' gives
//
//     q = h C g                          d drive += q,   d rate -= u q
//     d x  = g C (fused), g (1 - h rate) (euler), and gamma_r d z
//     d f  = A q - liquid u q,   d z = d f act'(z),   d A += q f,   d leak -= u q
//     d h += g C^2 (drive - rate x)           C is 1 for explicit Euler
//
// Classical RK4, with the velocity k(y) = drive - rate y, goes through stages s = 1 .. 4:
//
//     y_1 = x,    y_s+1 = x + a_s h k(y_s),    x' = x + h sum_s b_s k(y_s)     a = 1/2, 1/2, 1;  b = 1/6, 1/3, 1/3, 1/6
//
// Backward, from the last stage to the first: with the gradient Y_s+1 of y_s+1 (zero after the last stage), the
// velocity of stage s has the gradient h m with m = b_s g + a_s Y_s+1. With q = h m, all else is as above with u = y_s,
// except x:
//
//     d h += m k(y_s),    Y_s = -rate q and gamma_r d z,    d x = g + sum_s Y_s
#pragma once

#include "../../ops/cpu/kernels/export.h"

namespace ncp {

// In the order of ACTIVATION_NAMES in kind.py.
enum Activation : int64_t { SIGMOID, RELU, TANH, HARD_TANH };

// Python fills this struct (kind.py has the same names): every field has eight bytes.
// tau_raw and A are null for a cell without them; RK4 does not read euler.
struct AffineArguments {
    int64_t synapses, sensory, unfolds, euler, liquid, magnitude, activation;
    const int64_t *start, *source, *sensory_start, *sensory_source;
    const void *gamma, *gamma_r, *mu, *tau_raw, *A;
    void *d_gamma, *d_gamma_r, *d_mu, *d_tau_raw, *d_A;
};

template <typename T_>
struct Affine {
    typedef T_ T;
    typedef Vec<T> V;

    static constexpr bool has_row_path = false;

    const AffineArguments& p;
    const int64_t N, I;
    const bool euler;  // without a rate, as in a Neural ODE, a fused step is an explicit one
    std::vector<T> leak;

    Affine(const AffineArguments& arguments, const Problem& problem)
        : p(arguments), N(problem.units), I(problem.inputs), euler(p.euler || !(p.tau_raw || p.liquid)), leak(N) {
        if (p.tau_raw) positive_all<T>(p.tau_raw, leak.data(), N);
        for (int64_t j = 0; j < N; ++j) leak[j] = p.tau_raw ? T(1) / leak[j] : T(0);
    }

    static T at(const void* values, int64_t i) { return static_cast<const T*>(values)[i]; }
    T drive_scale(int64_t j) const { return p.A ? at(p.A, j) : T(1); }

    // The rate at f, and the part of its gradient that goes to f.
    NCP_INLINE V rate_at(int64_t j, V f) const {
        if (!p.liquid) return all<T>(leak[j]);
        return leak[j] + (p.magnitude ? ncp::magnitude<T>(f) : f);
    }
    NCP_INLINE V rate_back(V f, V d_rate) const {
        if (!p.liquid) return V{};
        return p.magnitude ? (f < all<T>(0) ? -d_rate : d_rate) : d_rate;
    }

    // A single row has no path of its own.
    int64_t row_scratch() const { return 0; }
    void step_row(T*, const T*, T*, T) const {}

    // Work vectors: the states of all unfolds (L + 1) N, then f, C / r, own and dh of each unfold, then sums over the
    // unfolds.
    int64_t scratch_vectors(bool) const { return (5 * p.unfolds + 1) * N + 4 * N; }

    struct Work {
        V *U, *f, *C, *own, *dh, *sensed, *dz, *dz_sum, *next;
    };

    Work carve(V* at) const {
        const int64_t L = p.unfolds * N;
        Work k;
        k.U = at;
        k.f = k.U + L + N;
        k.C = k.f + L;
        k.own = k.C + L;
        k.dh = k.own + L;
        k.sensed = k.dh + L;
        k.dz = k.sensed + N;
        k.dz_sum = k.dz + N;
        k.next = k.dz_sum + N;
        return k;
    }

    // Turns z into act(z) for all neurons, with several sigmoids at a time.
    void act(V* z) const {
        constexpr int K = NCP_VECTOR_BYTES >= 32 ? 4 : 2;
        if (p.activation == RELU) {
            for (int64_t j = 0; j < N; ++j) z[j] = z[j] < all<T>(0) ? V{} : z[j];
        } else if (p.activation == HARD_TANH) {
            for (int64_t j = 0; j < N; ++j) z[j] = clamp<T>(z[j], T(-1), T(1));
        } else {
            const bool is_tanh = p.activation == TANH;
            const T before = T(is_tanh ? -2 * LOG2E : -LOG2E), scale = T(is_tanh ? 2 : 1), shift = T(is_tanh ? 1 : 0);
            int64_t j = 0;
            for (; j + K <= N; j += K) {
                V x[K];
                for (int k = 0; k < K; ++k) x[k] = z[j + k] * before;
                sigmoid_exp2_many<T, K>(x);
                for (int k = 0; k < K; ++k) z[j + k] = scale * x[k] - shift;
            }
            for (; j < N; ++j) z[j] = scale * sigmoid_exp2<T>(z[j] * before) - shift;
        }
    }

    // act'(z) from f = act(z); zero at a corner, as in torch.
    NCP_INLINE V slope(V f) const {
        const V one = all<T>(1);
        switch (p.activation) {
            case SIGMOID: return f * (one - f);
            case RELU: return f > all<T>(0) ? one : V{};
            case TANH: return one - f * f;
            default: return magnitude<T>(f) < one ? one : V{};
        }
    }

    // The length of an unfold, as s and r.
    NCP_INLINE Span<T> span_of(V elapsed) const {
        const V h = elapsed / T(p.unfolds);
        return euler ? Span<T>{h, all<T>(1)} : span<T>(h);
    }

    // mu + gamma x of every neuron.
    void sense(const V* x, V* sensed) const {
        const T* gamma = static_cast<const T*>(p.gamma);
        for (int64_t j = 0; j < N; ++j) {
            V z = all<T>(at(p.mu, j));
            for (int64_t e = p.sensory_start[j]; e < p.sensory_start[j + 1]; ++e)
                z += gamma[e] * x[p.sensory_source[e]];
            sensed[j] = z;
        }
    }

    // f of every neuron at the states `from`, summed in K parts, because each addition waits for the one before it.
    void excite(const V* sensed, const V* from, V* f) const {
        const T* gamma_r = static_cast<const T*>(p.gamma_r);
        constexpr int K = 4;
        for (int64_t j = 0; j < N; ++j) {
            int64_t e = p.start[j], last = p.start[j + 1];
            V z[K] = {sensed[j]};
            for (; e + K <= last; e += K)
                for (int k = 0; k < K; ++k) z[k] += gamma_r[e + k] * from[p.source[e + k]];
            for (; e < last; ++e) z[0] += gamma_r[e] * from[p.source[e]];
            f[j] = (z[0] + z[1]) + (z[2] + z[3]);
        }
        act(f);
    }

    template <bool record>
    void step(V* scratch, const V* x, V* v, V elapsed) const {
        Work k = carve(scratch);
        const Span<T> h = span_of(elapsed);
        sense(x, k.sensed);
        V* from = record ? k.U : v;
        if (record) std::memcpy(from, v, N * sizeof(V));
        for (int64_t l = 0; l < p.unfolds; ++l) {
            V* to = record ? from + N : (from == v ? k.next : v);
            V* fs = k.f + (record ? l * N : 0);
            excite(k.sensed, from, fs);
            for (int64_t j = 0; j < N; ++j) {
                const V f = fs[j], rate = rate_at(j, f), velocity = drive_scale(j) * f - rate * from[j];
                const V C = euler ? all<T>(1) : reciprocal<T>(h.r + h.s * rate);
                to[j] = from[j] + C * (h.s * velocity);
                if (record) {
                    k.C[l * N + j] = C;
                    k.own[l * N + j] = euler ? T(1) - h.s * rate : h.r * C;
                    k.dh[l * N + j] = h.r * C * (h.r * C * velocity);
                }
            }
            from = to;
        }
        if (from != v) std::memcpy(v, from, N * sizeof(V));
    }

    // Sums: for each neuron d mu, d leak, d A; for each synapse and each sensory synapse one.
    int64_t accumulators() const { return 3 * N + p.synapses + p.sensory; }

    V step_back(V* scratch, const V* x, V* g, V* dx, V elapsed, V* sums) const {
        Work k = carve(scratch);
        V *d_leak = sums + N, *d_A = d_leak + N, *d_gamma_r = d_A + N;
        const T* gamma_r = static_cast<const T*>(p.gamma_r);
        const Span<T> h = span_of(elapsed);
        V d_h = {};
        std::memset(k.dz_sum, 0, N * sizeof(V));
        for (int64_t l = p.unfolds - 1; l >= 0; --l) {
            const V *from = k.U + l * N, *to = from + N;
            for (int64_t j = 0; j < N; ++j) {
                const V f = k.f[l * N + j], C = k.C[l * N + j];
                const V q = h.s * C * g[j], uq = (euler ? from[j] : to[j]) * q;
                d_h += g[j] * k.dh[l * N + j];
                d_A[j] += h.s * f * C * g[j];  // q f, where q can be too small for a float
                d_leak[j] -= uq;
                V df = drive_scale(j) * q - rate_back(f, uq);
                V dz = df * slope(f);
                k.dz[j] = dz;
                k.dz_sum[j] += dz;
                k.next[j] = g[j] * k.own[l * N + j];
            }
            for (int64_t j = 0; j < N; ++j) {
                V dz = k.dz[j];
                for (int64_t e = p.start[j]; e < p.start[j + 1]; ++e) {
                    int64_t i = p.source[e];
                    d_gamma_r[e] += dz * from[i];
                    k.next[i] += dz * gamma_r[e];
                }
            }
            std::memcpy(g, k.next, N * sizeof(V));
        }
        sense_back(x, k.dz_sum, dx, sums);
        return d_h / T(p.unfolds);
    }

    // Adds the gradients of mu, gamma and x, from d z summed over the step.
    void sense_back(const V* x, const V* dz_sum, V* dx, V* sums) const {
        V *d_mu = sums, *d_gamma = sums + 3 * N + p.synapses;
        const T* gamma = static_cast<const T*>(p.gamma);
        for (int64_t j = 0; j < N; ++j) {
            V dz = dz_sum[j];
            d_mu[j] += dz;
            for (int64_t e = p.sensory_start[j]; e < p.sensory_start[j + 1]; ++e) {
                int64_t i = p.sensory_source[e];
                d_gamma[e] += dz * x[i];
                dx[i] += dz * gamma[e];
            }
        }
    }

    void finish(const double* sums) {
        const double *d_mu = sums, *d_leak = d_mu + N, *d_A = d_leak + N, *d_gamma_r = d_A + N,
                     *d_gamma = d_gamma_r + p.synapses;
        for (int64_t j = 0; j < N; ++j) {
            put(p.d_mu, j, d_mu[j]);
            if (p.d_A) put(p.d_A, j, d_A[j]);
            if (p.d_tau_raw) put(p.d_tau_raw, j, -d_leak[j] * leak[j] * leak[j] * softplus_slope(at(p.tau_raw, j)));
        }
        for (int64_t e = 0; e < p.synapses; ++e) put(p.d_gamma_r, e, d_gamma_r[e]);
        for (int64_t e = 0; e < p.sensory; ++e) put(p.d_gamma, e, d_gamma[e]);
    }

    static void put(void* values, int64_t i, double value) { static_cast<T*>(values)[i] = T(value); }
};

// The same neurons, solved by classical RK4.
template <typename T_>
struct AffineRK4 : Affine<T_> {
    typedef T_ T;
    typedef Vec<T> V;
    typedef Affine<T> Base;
    using Base::Base, Base::p, Base::N, Base::leak;

    static constexpr int STAGES = 4;
    // a and b of the equations above; no stage follows the last one, so its a is zero.
    static constexpr T ahead[] = {T(0.5), T(0.5), T(1), T(0)};
    static constexpr T share[] = {T(1) / 6, T(1) / 3, T(1) / 3, T(1) / 6};

    // Work vectors: states and f of every stage of every unfold, then d z of one unfold's stages, then four for each
    // neuron.
    int64_t scratch_vectors(bool) const { return 2 * p.unfolds * STAGES * N + STAGES * N + 4 * N; }

    struct Work {
        V *y, *f, *dz, *sensed, *sum, *dz_sum, *back;
    };

    Work carve(V* at) const {
        Work k;
        k.y = at;
        k.f = k.y + p.unfolds * STAGES * N;
        k.dz = k.f + p.unfolds * STAGES * N;
        k.sensed = k.dz + STAGES * N;
        k.sum = k.sensed + N;
        k.dz_sum = k.sum + N;
        k.back = k.dz_sum + N;
        return k;
    }

    NCP_INLINE V velocity_at(int64_t j, V f, V y) const { return this->drive_scale(j) * f - this->rate_at(j, f) * y; }

    template <bool record>
    void step(V* scratch, const V* x, V* v, V elapsed) const {
        const Work k = carve(scratch);
        const V h = elapsed / T(p.unfolds);
        this->sense(x, k.sensed);
        for (int64_t l = 0; l < p.unfolds; ++l) {
            V *y = record ? k.y + l * STAGES * N : k.y, *f = record ? k.f + l * STAGES * N : k.f;
            std::memcpy(y, v, N * sizeof(V));
            std::memset(k.sum, 0, N * sizeof(V));
            for (int s = 0; s < STAGES; ++s, y += N, f += N) {
                this->excite(k.sensed, y, f);
                for (int64_t j = 0; j < N; ++j) {
                    const V velocity = velocity_at(j, f[j], y[j]);
                    k.sum[j] += share[s] * velocity;
                    if (s + 1 < STAGES) y[N + j] = v[j] + ahead[s] * h * velocity;
                }
            }
            for (int64_t j = 0; j < N; ++j) v[j] += h * k.sum[j];
        }
    }

    // Turns m, in `back`, into the gradient of the stage's states y, in the same place.
    void stage_back(const Work& k, const V* y, const V* f, V* dz, V h, V* d_h, V* sums) const {
        V *d_leak = sums + N, *d_A = d_leak + N;
        const T* gamma_r = static_cast<const T*>(p.gamma_r);
        for (int64_t j = 0; j < N; ++j) {
            const V q = h * k.back[j], yq = y[j] * q;
            *d_h += k.back[j] * velocity_at(j, f[j], y[j]);
            d_A[j] += q * f[j];
            d_leak[j] -= yq;
            const V df = this->drive_scale(j) * q - this->rate_back(f[j], yq);
            dz[j] = df * this->slope(f[j]);
            k.dz_sum[j] += dz[j];
            k.back[j] = -this->rate_at(j, f[j]) * q;
        }
        for (int64_t j = 0; j < N; ++j) {
            const V d = dz[j];
            for (int64_t e = p.start[j]; e < p.start[j + 1]; ++e) k.back[p.source[e]] += d * gamma_r[e];
        }
    }

    // Adds the gradients of gamma_r from all stages of an unfold at once, so that each sum is read and written once.
    void weights_back(const V* y, const V* dz, V* d_gamma_r) const {
        for (int64_t j = 0; j < N; ++j) {
            V d[STAGES];
            for (int s = 0; s < STAGES; ++s) d[s] = dz[s * N + j];
            for (int64_t e = p.start[j]; e < p.start[j + 1]; ++e) {
                const V* source = y + p.source[e];
                V sum = d_gamma_r[e];
                for (int s = 0; s < STAGES; ++s) sum += d[s] * source[s * N];
                d_gamma_r[e] = sum;
            }
        }
    }

    V step_back(V* scratch, const V* x, V* g, V* dx, V elapsed, V* sums) const {
        const Work k = carve(scratch);
        const V h = elapsed / T(p.unfolds);
        V d_h = {};
        std::memset(k.dz_sum, 0, N * sizeof(V));
        for (int64_t l = p.unfolds - 1; l >= 0; --l) {
            const V *y = k.y + l * STAGES * N, *f = k.f + l * STAGES * N;
            std::memset(k.back, 0, N * sizeof(V));
            std::memset(k.sum, 0, N * sizeof(V));
            for (int s = STAGES - 1; s >= 0; --s) {
                for (int64_t j = 0; j < N; ++j) k.back[j] = share[s] * g[j] + ahead[s] * k.back[j];
                stage_back(k, y + s * N, f + s * N, k.dz + s * N, h, &d_h, sums);
                for (int64_t j = 0; j < N; ++j) k.sum[j] += k.back[j];
            }
            weights_back(y, k.dz, sums + 3 * N);
            for (int64_t j = 0; j < N; ++j) g[j] += k.sum[j];
        }
        this->sense_back(x, k.dz_sum, dx, sums);
        return d_h / T(p.unfolds);
    }
};

}  // namespace ncp

NCP_CELL(ncp_affine, Affine, AffineArguments)
NCP_CELL(ncp_affine_rk4, AffineRK4, AffineArguments)
