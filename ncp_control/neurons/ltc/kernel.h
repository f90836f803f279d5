// Conductance-based liquid time-constant neurons (neuron.py explains the letters).
//
// With s = sigmoid(sigma (v_i - mu)) for each synapse from i to j, one unfold of length h is
//
//     conductance_j = gleak_j + sum gap + sensory conductance + sum w s
//     current_j     = gleak_j vleak_j + sensory current + sum w s E + sum gap v_k
//     v' = v + h C (current - conductance v)
//
// with C = 1 / (cm + h conductance) for the fused solver, which makes v' = (cm v + h current) / (cm + h conductance),
// and C = 1 / cm for explicit Euler. So that nothing overflows, the fused solver takes h as s / r (`span` in lanes.h) and
// computes C / r = 1 / (r cm + s conductance) and h C = s (C / r); for explicit Euler s is h and r is 1. Backward, with
// u = v' (fused) or u = v (euler), a gradient g of v' gives
//
//     q = h C g                     d current += q,   d conductance -= u q
//     d v  = g C cm (fused), g (1 - h C conductance) (euler), and the gradient that flows back through the synapses:
//     d a  = q (E - u)   for a = w s;   d z = d a w s (1 - s)   for z = sigma (v_i - mu);   d v_i += d z sigma
//     d cm += g C (v - v'),   d h += g C^2 cm (current - conductance v) (fused), g C (current - conductance v) (euler)
//
// The sensory part is constant through the unfolds, so its q and u q are first summed over the unfolds. Slopes hold a
// factor of -log2(e), so that a sigmoid needs one exp2.
#pragma once

#include "../../ops/cpu/kernels/export.h"

namespace ncp {

// Python fills this struct (kind.py has the same names): every field has eight bytes.
// A gradient has its parameter's shape; input maps may be null.
struct LTCArguments {
    int64_t synapses, sensory, gaps, unfolds, euler;
    const int64_t *start, *source;                  // synapses into j: start[j] .. start[j + 1]
    const int64_t *sensory_start, *sensory_source;  // the same for sensory synapses
    const int64_t* gap_ends;                        // (G, 2)
    const void *gleak_raw, *vleak, *cm_raw, *gap_raw;
    const void *w_raw, *mu, *sigma, *E;
    const void *sensory_w_raw, *sensory_mu, *sensory_sigma, *sensory_E;
    const void *input_scale, *input_shift;
    void *d_gleak_raw, *d_vleak, *d_cm_raw, *d_gap_raw;
    void *d_w_raw, *d_mu, *d_sigma, *d_E;
    void *d_sensory_w_raw, *d_sensory_mu, *d_sensory_sigma, *d_sensory_E;
    void *d_input_scale, *d_input_shift;
};

template <typename T_>
struct LTC {
    typedef T_ T;
    typedef Vec<T> V;

    static constexpr bool has_row_path = true;
    static constexpr int64_t tile = 128;  // so many sigmoids stay in the first cache until they are summed

    // Synapses in the form that the loops use: s = 1 / (1 + 2^(slope v + offset)). Zeros pad them to whole vectors.
    struct Synapses {
        int64_t count;
        // offset = -slope mu, back = -ln 2 w, steep = back slope
        std::vector<T> slope, mu, offset, w, wE, E, back, steep;
        std::vector<int32_t> source;

        explicit Synapses(int64_t n)
            : count(n), slope(padded(n)), mu(padded(n)), offset(padded(n)), w(padded(n)), wE(padded(n)), E(padded(n)),
              back(padded(n)), steep(padded(n)), source(padded(n)) {}
    };

    const LTCArguments& p;
    const int64_t N, I;
    const bool timed;  // whether the gradient of elapsed is wanted
    Synapses synapse, sensory;
    std::vector<T> slow, leak, cm, inverse_cm, gap, scale, shift;

    LTC(const LTCArguments& arguments, const Problem& problem)
        : p(arguments), N(problem.units), I(problem.inputs), timed(problem.grad_elapsed), synapse(p.synapses),
          sensory(p.sensory), slow(N), leak(N), cm(N), inverse_cm(N), gap(p.gaps), scale(I, T(1)), shift(I, T(0)) {
        positive_all<T>(p.gleak_raw, slow.data(), N);
        positive_all<T>(p.cm_raw, cm.data(), N);
        positive_all<T>(p.gap_raw, gap.data(), p.gaps);
        for (int64_t j = 0; j < N; ++j) {
            leak[j] = slow[j] * at(p.vleak, j);
            inverse_cm[j] = T(1) / cm[j];
        }
        for (int64_t k = 0; k < p.gaps; ++k) {
            slow[p.gap_ends[2 * k]] += gap[k];
            slow[p.gap_ends[2 * k + 1]] += gap[k];
        }
        prepare(synapse, p.w_raw, p.mu, p.sigma, p.E, p.source);
        prepare(sensory, p.sensory_w_raw, p.sensory_mu, p.sensory_sigma, p.sensory_E, p.sensory_source);
        if (p.input_scale) std::memcpy(scale.data(), p.input_scale, I * sizeof(T));
        if (p.input_shift) std::memcpy(shift.data(), p.input_shift, I * sizeof(T));
    }

    static int64_t padded(int64_t n) { return (n + Lanes<T>::W - 1) / Lanes<T>::W * Lanes<T>::W; }

    static T at(const void* values, int64_t i) { return static_cast<const T*>(values)[i]; }

    static void prepare(Synapses& y, const void* w_raw, const void* mu, const void* sigma, const void* E,
                        const int64_t* source) {
        positive_all<T>(w_raw, y.w.data(), y.count);
        for (int64_t e = 0; e < y.count; ++e) {
            y.slope[e] = T(-LOG2E) * at(sigma, e);
            y.mu[e] = at(mu, e);
            y.offset[e] = -y.slope[e] * y.mu[e];
            y.E[e] = at(E, e);
            y.wE[e] = y.w[e] * y.E[e];
            y.back[e] = T(-LN2) * y.w[e];
            y.steep[e] = y.back[e] * y.slope[e];
            y.source[e] = int32_t(source[e]);
        }
    }

    // Work vectors: the states of all unfolds (L + 1) N, then C / r, own, dh and the sigmoids of each unfold, then
    // sums, then inputs. A step that records nothing has use for one unfold only.
    int64_t scratch_vectors(bool record) const {
        const int64_t L = record ? p.unfolds : 1;
        return (4 * L + 1) * N + L * p.synapses + p.sensory + (L + 5) * N + 2 * I;
    }

    struct Work {
        V *U, *C, *own, *dh, *s, *sensory_s, *G, *Q, *dG, *dQ, *q, *next, *x, *dx;
    };

    Work carve(V* at, bool record) const {
        Work k;
        const int64_t L = record ? p.unfolds : 1;
        auto take = [&at](int64_t count) {
            V* here = at;
            at += count;
            return here;
        };
        k.U = take((L + 1) * N);
        k.C = take(L * N);
        k.own = take(L * N);
        k.dh = take(L * N);
        k.s = take(L * p.synapses);
        k.sensory_s = take(p.sensory);
        k.G = take(N);
        k.Q = take(N);
        k.dG = take(N);
        k.dQ = take(N);
        k.q = take(L * N);
        k.next = take(N);
        k.x = take(I);
        k.dx = take(I);
        return k;
    }

    template <bool record>
    void step(V* scratch, const V* x, V* v, V elapsed) const {
        Work k = carve(scratch, record);
        const Span<T> h = span_of(elapsed);
        for (int64_t i = 0; i < I; ++i) k.x[i] = x[i] * scale[i] + shift[i];
        open(sensory, 0, sensory.count, k.x, k.sensory_s);
        for (int64_t j = 0; j < N; ++j) {
            V conductance = all<T>(slow[j]), current = all<T>(leak[j]);
            for (int64_t e = p.sensory_start[j]; e < p.sensory_start[j + 1]; ++e) {
                conductance += sensory.w[e] * k.sensory_s[e];
                current += sensory.wE[e] * k.sensory_s[e];
            }
            k.G[j] = conductance;
            k.Q[j] = current;
        }
        V* from = record ? k.U : v;
        if (record) std::memcpy(from, v, N * sizeof(V));
        for (int64_t l = 0; l < p.unfolds; ++l) {
            V* to = record ? from + N : (from == v ? k.next : v);
            unfold<record>(k, from, to, h, l);
            from = to;
        }
        if (from != v) std::memcpy(v, from, N * sizeof(V));
    }

    // The length of an unfold, as s and r.
    NCP_INLINE Span<T> span_of(V elapsed) const {
        const V h = elapsed / T(p.unfolds);
        return p.euler ? Span<T>{h, all<T>(1)} : span<T>(h);
    }

    // The sigmoids s of synapses first to last, at the states or inputs v.
    static void open(const Synapses& y, int64_t first, int64_t last, const V* v, V* s) {
        constexpr int K = NCP_VECTOR_BYTES >= 32 ? 4 : 2;
        int64_t e = first;
        for (; e + K <= last; e += K) {
            V x[K];
            for (int k = 0; k < K; ++k) x[k] = v[y.source[e + k]] * y.slope[e + k] + y.offset[e + k];
            sigmoid_exp2_many<T, K>(x);
            for (int k = 0; k < K; ++k) s[e + k] = x[k];
        }
        for (; e < last; ++e) s[e] = sigmoid_exp2<T>(v[y.source[e]] * y.slope[e] + y.offset[e]);
    }

    template <bool record>
    NCP_INLINE void unfold(const Work& k, const V* from, V* to, Span<T> h, int64_t l) const {
        V* s = k.s + (record ? l * p.synapses : 0);
        const T *w = synapse.w.data(), *wE = synapse.wE.data();
        if (p.gaps) gap_currents(k, from);
        for (int64_t j = 0, opened = 0; j < N; ++j) {
            if (p.start[j + 1] > opened) {
                int64_t last = j + 1;
                while (last < N && p.start[last + 1] - p.start[j] <= tile) ++last;
                open(synapse, p.start[j], p.start[last], from, s);
                opened = p.start[last];
            }
            V conductance = k.G[j], current = k.Q[j];
            if (p.gaps) current += k.q[j];
            for (int64_t e = p.start[j]; e < p.start[j + 1]; ++e) {
                conductance += w[e] * s[e];
                current += wE[e] * s[e];
            }
            const V v = from[j], velocity = current - conductance * v;
            const V C = p.euler ? all<T>(inverse_cm[j]) : reciprocal<T>(h.r * cm[j] + h.s * conductance);
            to[j] = v + C * (h.s * velocity);
            if (record) {
                const V kept = h.r * C * cm[j];
                k.C[l * N + j] = C;
                k.own[l * N + j] = p.euler ? T(1) - h.s * C * conductance : kept;
                if (timed) k.dh[l * N + j] = (p.euler ? C : h.r * C * kept) * velocity;
            }
        }
    }

    int64_t widest() const { return padded(p.synapses > p.sensory ? p.synapses : p.sensory); }
    int64_t row_scratch() const { return 3 * N + I + 2 * widest(); }

    // Moves a single row: computes its synapses in the lanes, then sums them into their neurons.
    void step_row(T* scratch, const T* x, T* v, T elapsed) const {
        T *G = scratch, *Q = G + N, *q = Q + N, *mapped = q + N, *a = mapped + I, *aE = a + widest();
        const Span<T> h = span_of(all<T>(elapsed));
        const T s = h.s[0], r = h.r[0];
        for (int64_t i = 0; i < I; ++i) mapped[i] = x[i] * scale[i] + shift[i];
        open_row(sensory, mapped, a, aE);
        for (int64_t j = 0; j < N; ++j) {
            G[j] = slow[j] + sum_row(a, p.sensory_start[j], p.sensory_start[j + 1]);
            Q[j] = leak[j] + sum_row(aE, p.sensory_start[j], p.sensory_start[j + 1]);
        }
        for (int64_t l = 0; l < p.unfolds; ++l) {
            open_row(synapse, v, a, aE);
            for (int64_t j = 0; j < N; ++j) q[j] = Q[j];
            for (int64_t m = 0; m < p.gaps; ++m) {
                q[p.gap_ends[2 * m]] += gap[m] * v[p.gap_ends[2 * m + 1]];
                q[p.gap_ends[2 * m + 1]] += gap[m] * v[p.gap_ends[2 * m]];
            }
            for (int64_t j = 0; j < N; ++j) {
                const T conductance = G[j] + sum_row(a, p.start[j], p.start[j + 1]);
                const T current = q[j] + sum_row(aE, p.start[j], p.start[j + 1]);
                v[j] += s / (p.euler ? cm[j] : r * cm[j] + s * conductance) * (current - conductance * v[j]);
            }
        }
    }

    // Conductance a and driven current aE of every synapse at the states or inputs v of one row.
    void open_row(const Synapses& y, const T* v, T* a, T* aE) const {
        constexpr int W = Lanes<T>::W, K = 2;
        int64_t e = 0;
        for (; e + K * W <= y.count; e += K * W) open_vectors<K>(y, e, v, a, aE);
        for (; e < y.count; e += W) open_vectors<1>(y, e, v, a, aE);
    }

    template <int K>
    static NCP_INLINE void open_vectors(const Synapses& y, int64_t e, const T* v, T* a, T* aE) {
        constexpr int W = Lanes<T>::W;
        V s[K];
        for (int k = 0; k < K; ++k)
            s[k] = gather<T>(v, &y.source[e + k * W]) * load(&y.slope[e + k * W]) + load(&y.offset[e + k * W]);
        sigmoid_exp2_many<T, K>(s);
        for (int k = 0; k < K; ++k) {
            store(a + e + k * W, load(&y.w[e + k * W]) * s[k]);
            store(aE + e + k * W, load(&y.wE[e + k * W]) * s[k]);
        }
    }

    // The sum of values first to last, whole vectors first.
    static T sum_row(const T* values, int64_t first, int64_t last) {
        constexpr int W = Lanes<T>::W;
        T total = 0;
        if (last - first >= W) {
            V sums = {};
            for (; first + W <= last; first += W) sums += load(values + first);
            for (int lane = 0; lane < W; ++lane) total += sums[lane];
        }
        for (; first < last; ++first) total += values[first];
        return total;
    }

    static V load(const T* from) {
        V v;
        std::memcpy(&v, from, sizeof(V));
        return v;
    }

    static void store(T* to, V v) { std::memcpy(to, &v, sizeof(V)); }

    void gap_currents(const Work& k, const V* from) const {
        std::memset(k.q, 0, N * sizeof(V));
        for (int64_t m = 0; m < p.gaps; ++m) {
            int64_t a = p.gap_ends[2 * m], b = p.gap_ends[2 * m + 1];
            k.q[a] += gap[m] * from[b];
            k.q[b] += gap[m] * from[a];
        }
    }

    // Sums: for each neuron d slow, d leak, d cm; for each gap junction one; for each input d scale, d shift; then four
    // for each synapse and each sensory synapse: q s, q s (E - u), d t, d t (v - mu).
    int64_t accumulators() const { return 3 * N + p.gaps + 2 * I + 4 * (p.synapses + p.sensory); }

    V step_back(V* scratch, const V* x, V* g, V* dx, V elapsed, V* sums) const {
        Work k = carve(scratch, true);
        V *d_slow = sums, *d_leak = d_slow + N, *d_cm = d_leak + N, *d_gap = d_cm + N, *d_scale = d_gap + p.gaps,
          *d_shift = d_scale + I, *d_synapse = d_shift + I, *d_sensory = d_synapse + 4 * p.synapses;
        const T *steep = synapse.steep.data(), *mu = synapse.mu.data(), *E = synapse.E.data(),
                *back = synapse.back.data();
        const int32_t* source = synapse.source.data();
        const Span<T> h = span_of(elapsed);
        V d_h = {};
        std::memset(k.dG, 0, N * sizeof(V));
        std::memset(k.dQ, 0, N * sizeof(V));
        for (int64_t l = p.unfolds - 1; l >= 0; --l) {
            const V *from = k.U + l * N, *to = from + N, *s_in = k.s + l * p.synapses;
            for (int64_t j = 0; j < N; ++j) {
                V gc = g[j] * k.C[l * N + j];
                V q = h.s * gc;
                if (timed) d_h += g[j] * k.dh[l * N + j];
                d_cm[j] += h.r * gc * (from[j] - to[j]);
                k.dQ[j] += q;
                k.dG[j] -= (p.euler ? from[j] : to[j]) * q;
                k.next[j] = g[j] * k.own[l * N + j];
                k.q[l * N + j] = q;
            }
            for (int64_t j = 0; j < N; ++j) {
                V q = k.q[l * N + j], u = p.euler ? from[j] : to[j];
                for (int64_t e = p.start[j]; e < p.start[j + 1]; ++e) {
                    V s = s_in[e];
                    k.next[source[e]] += q * s * (E[e] - u) * (T(1) - s) * steep[e];
                }
            }
            for (int64_t m = 0; m < p.gaps; ++m) {
                int64_t a = p.gap_ends[2 * m], b = p.gap_ends[2 * m + 1];
                V qa = k.q[l * N + a], qb = k.q[l * N + b];
                d_gap[m] += qa * from[b] + qb * from[a];
                k.next[b] += gap[m] * qa;
                k.next[a] += gap[m] * qb;
            }
            std::memcpy(g, k.next, N * sizeof(V));
        }
        // All unfolds of one synapse together, so that its four sums stay in registers.
        for (int64_t j = 0; j < N; ++j) {
            for (int64_t e = p.start[j]; e < p.start[j + 1]; ++e) {
                V sum0 = {}, sum1 = {}, sum2 = {}, sum3 = {};
                for (int64_t l = 0; l < p.unfolds; ++l) {
                    const V* from = k.U + l * N;
                    V u = p.euler ? from[j] : from[N + j], s = k.s[l * p.synapses + e];
                    V qs = k.q[l * N + j] * s, da_s = qs * (E[e] - u), dt = da_s * (T(1) - s);
                    sum0 += qs;
                    sum1 += da_s;
                    sum2 += dt;
                    sum3 += dt * (from[source[e]] - mu[e]);
                }
                V* sum = d_synapse + 4 * e;
                sum[0] += sum0;
                sum[1] += sum1;
                sum[2] += sum2 * back[e];
                sum[3] += sum3 * back[e];
            }
        }
        std::memset(k.dx, 0, I * sizeof(V));
        for (int64_t j = 0; j < N; ++j) {
            d_slow[j] += k.dG[j];
            d_leak[j] += k.dQ[j];
            for (int64_t e = p.sensory_start[j]; e < p.sensory_start[j + 1]; ++e) {
                const int32_t i = sensory.source[e];
                V s = k.sensory_s[e], qs = k.dQ[j] * s, da_s = qs * sensory.E[e] + k.dG[j] * s;
                V dt = da_s * sensory.back[e] * (T(1) - s);
                V* sum = d_sensory + 4 * e;
                sum[0] += qs;
                sum[1] += da_s;
                sum[2] += dt;
                sum[3] += dt * (k.x[i] - sensory.mu[e]);
                k.dx[i] += dt * sensory.slope[e];
            }
        }
        for (int64_t i = 0; i < I; ++i) {
            d_scale[i] += k.dx[i] * x[i];
            d_shift[i] += k.dx[i];
            dx[i] += k.dx[i] * scale[i];
        }
        return d_h / T(p.unfolds);
    }

    void finish(const double* sums) {
        const double *d_slow = sums, *d_leak = d_slow + N, *d_cm = d_leak + N, *d_gap = d_cm + N,
                     *d_scale = d_gap + p.gaps, *d_shift = d_scale + I, *d_synapse = d_shift + I,
                     *d_sensory = d_synapse + 4 * p.synapses;
        std::vector<T> gleak(N);
        positive_all<T>(p.gleak_raw, gleak.data(), N);
        for (int64_t j = 0; j < N; ++j) {
            put(p.d_gleak_raw, j, (d_slow[j] + d_leak[j] * at(p.vleak, j)) * softplus_slope(at(p.gleak_raw, j)));
            put(p.d_vleak, j, d_leak[j] * gleak[j]);
            put(p.d_cm_raw, j, d_cm[j] * softplus_slope(at(p.cm_raw, j)));
        }
        for (int64_t k = 0; k < p.gaps; ++k) {
            double both = d_slow[p.gap_ends[2 * k]] + d_slow[p.gap_ends[2 * k + 1]];
            put(p.d_gap_raw, k, (d_gap[k] + both) * softplus_slope(at(p.gap_raw, k)));
        }
        finish(synapse, d_synapse, p.w_raw, p.sigma, p.d_w_raw, p.d_mu, p.d_sigma, p.d_E);
        finish(sensory, d_sensory, p.sensory_w_raw, p.sensory_sigma, p.d_sensory_w_raw, p.d_sensory_mu,
               p.d_sensory_sigma, p.d_sensory_E);
        for (int64_t i = 0; i < I; ++i) {
            if (p.d_input_scale) put(p.d_input_scale, i, d_scale[i]);
            if (p.d_input_shift) put(p.d_input_shift, i, d_shift[i]);
        }
    }

    static void finish(const Synapses& y, const double* sums, const void* w_raw, const void* sigma, void* d_w_raw,
                       void* d_mu, void* d_sigma, void* d_E) {
        for (int64_t e = 0; e < y.count; ++e) {
            const double* d = sums + 4 * e;
            put(d_E, e, y.w[e] * d[0]);
            put(d_w_raw, e, d[1] * softplus_slope(at(w_raw, e)));
            put(d_mu, e, LOG2E * at(sigma, e) * d[2]);
            put(d_sigma, e, -LOG2E * d[3]);
        }
    }

    static void put(void* values, int64_t i, double value) { static_cast<T*>(values)[i] = T(value); }
};

}  // namespace ncp

NCP_CELL(ncp_ltc, LTC, LTCArguments)
