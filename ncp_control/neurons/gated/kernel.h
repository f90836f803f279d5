// LSTM and GRU (neuron.py): for each unit four linear maps of inputs x and hidden state h, then gates.
//
// All four maps i, f, g, o of an LSTM read x and h. Of the maps r, z, n, m of a GRU, r and z read both, n reads x and m
// reads h. So weight_ih and weight_hh have as many rows: four for each unit of an LSTM, three for each of a GRU. The
// maps by these names give
//
//     LSTM:  c' = s(f) c + s(i) tanh(g),    h' = s(o) tanh(c')           s = sigmoid, the state is [h, c]
//     GRU:   n' = tanh(n + s(r) m),         h' = (1 - s(z)) n' + s(z) h
//
// A GRU's h' must not leave the range of n', however long a gate s(z) near 1 keeps it. As n' + s(z) (h - n') it would:
// at s(z) = 1 the difference rounds anew in every step, a random walk that nothing pulls back. In the form above, s(z) =
// 1 returns h itself. With eps of rounding, and d for how far h is beyond the range, a product and the sum add less than
// h eps + (1 - s(z)) h eps to a mean that is (1 - s(z)) d closer: from d = 2 h eps on, no h' is above h.
//
// Backward, with i for the gate s(i) and so on, and s' = s (1 - s), gradients gh of h' and gc of c' give
//
//     LSTM:  q = gc + gh o (1 - tanh(c')^2)                              the whole gradient of c'
//            d i = q g i',   d f = q c f',   d g = q i (1 - g^2),   d o = gh tanh(c') o',   d c = q f
//     GRU:   q = gh (1 - z) (1 - n'^2)
//            d r = q m r',   d z = gh (h - n') z',   d n = q,   d m = q r,   d h = gh z
//
// and through the weights d x = W_ih^T d maps, d h += W_hh^T d maps. The gradients of the weights are sums over rows
// and time of d maps times x or h. In this kernel each would be a vector of its own, more than a cache holds; so the
// kernel writes d maps, and kind.py computes the sums as one matrix product.
#pragma once

#include "../../ops/cpu/kernels/export.h"

namespace ncp {

// Python fills this struct (kind.py has the same names): every field has eight bytes.
// Weights are (gates U, I) and (gates U, U), biases (gates U,).
struct GatedArguments {
    int64_t synapses, sensory;
    const void *weight_ih, *weight_hh, *bias_ih, *bias_hh;
    void* d_maps;  // (B, T, U, 4), in the backward pass only
};

constexpr int MAPS = 4;

// A rule says which maps read x and h, moves unit u of U, and takes its gradient back. The first argument holds the
// unit's maps: `move` turns them into gates, and `back` turns the gates into the gradients of the maps. `kept` is a
// vector that `move` leaves for `back`.

template <typename T>
struct LSTMRule {
    typedef Vec<T> V;
    static constexpr int gates = 4, parts = 2;  // the state is h and c
    static constexpr int map_of_x[] = {0, 1, 2, 3}, map_of_h[] = {0, 1, 2, 3};

    static NCP_INLINE void move(V* z, V* v, int64_t u, int64_t U, V* kept) {
        for (int m = 0; m < MAPS; ++m) z[m] *= T(m == 2 ? -2 * LOG2E : -LOG2E);
        sigmoid_exp2_many<T, MAPS>(z);
        z[2] = T(2) * z[2] - T(1);
        v[U + u] = z[1] * v[U + u] + z[0] * z[2];
        *kept = tanh<T>(v[U + u]);
        v[u] = z[3] * *kept;
    }

    static NCP_INLINE void back(V* z, const V* old, V* grad, int64_t u, int64_t U, V kept) {
        const V i = z[0], f = z[1], g = z[2], o = z[3], gh = grad[u];
        const V q = grad[U + u] + gh * o * (T(1) - kept * kept);
        z[0] = q * g * i * (T(1) - i);
        z[1] = q * old[U + u] * f * (T(1) - f);
        z[2] = q * i * (T(1) - g * g);
        z[3] = gh * kept * o * (T(1) - o);
        grad[u] = V{};
        grad[U + u] = q * f;
    }
};

template <typename T>
struct GRURule {
    typedef Vec<T> V;
    static constexpr int gates = 3, parts = 1;
    static constexpr int map_of_x[] = {0, 1, 2}, map_of_h[] = {0, 1, 3};

    static NCP_INLINE void move(V* z, V* v, int64_t u, int64_t, V*) {
        for (int m = 0; m < 2; ++m) z[m] *= T(-LOG2E);
        sigmoid_exp2_many<T, 2>(z);
        z[2] = tanh<T>(z[2] + z[0] * z[3]);
        v[u] = (T(1) - z[1]) * z[2] + z[1] * v[u];
    }

    static NCP_INLINE void back(V* gates, const V* old, V* grad, int64_t u, int64_t, V) {
        const V r = gates[0], z = gates[1], n = gates[2], m = gates[3], gh = grad[u];
        const V q = gh * (T(1) - z) * (T(1) - n * n);
        gates[0] = q * m * r * (T(1) - r);
        gates[1] = gh * (old[u] - n) * z * (T(1) - z);
        gates[2] = q;
        gates[3] = q * r;
        grad[u] = gh * z;
    }
};

template <typename T_, template <typename> class Rule_>
struct Gated {
    typedef T_ T;
    typedef Vec<T> V;
    typedef Rule_<T> Rule;

    static constexpr bool has_row_path = false;
    static constexpr int G = Rule::gates;
    // The sums of so many units or sources fit in the registers together.
    static constexpr int K = NCP_VECTOR_BYTES == 64 ? 4 : 2;

    const GatedArguments& p;
    const Problem& problem;
    const int64_t N, I, U;
    std::vector<T> from_x, from_h, bias;  // weights in the order of their use, biases for each map (U, 4)

    Gated(const GatedArguments& arguments, const Problem& given)
        : p(arguments), problem(given), N(given.units), I(given.inputs), U(N / Rule::parts),
          from_x(in_order(p.weight_ih, I)), from_h(in_order(p.weight_hh, U)), bias(MAPS * U) {
        for (int64_t u = 0; u < U; ++u)
            for (int m = 0; m < G; ++m) {
                bias[MAPS * u + Rule::map_of_x[m]] += values(p.bias_ih)[m * U + u];
                bias[MAPS * u + Rule::map_of_h[m]] += values(p.bias_hh)[m * U + u];
            }
    }

    static const T* values(const void* given) { return static_cast<const T*>(given); }

    // Turns weights (gates U, count) into groups of units, each (count, units of the group, gates).
    std::vector<T> in_order(const void* weight, int64_t count) const {
        std::vector<T> out(G * U * count);
        T* to = out.data();
        for (int64_t u = 0, units; u < U; u += units) {
            units = u + K <= U ? K : 1;
            for (int64_t s = 0; s < count; ++s)
                for (int64_t k = 0; k < units; ++k)
                    for (int m = 0; m < G; ++m) *to++ = values(weight)[(m * U + u + k) * count + s];
        }
        return out;
    }

    // A single row has no path of its own.
    int64_t row_scratch() const { return 0; }
    void step_row(T*, const T*, T*, T) const {}

    // Work vectors: the maps (U, 4), what the rule keeps, and the old state.
    int64_t scratch_vectors(bool) const { return MAPS * U + U + N; }

    // Adds to the maps of `units` units what arrives from `count` sources.
    template <int units>
    static NCP_INLINE void add_sources(V (&sum)[units][MAPS], const T* weight, const int (&map)[G], const V* source,
                                       int64_t count) {
        for (int64_t s = 0; s < count; ++s, weight += units * G)
            for (int k = 0; k < units; ++k)
                for (int m = 0; m < G; ++m) sum[k][map[m]] += weight[k * G + m] * source[s];
    }

    template <int units>
    NCP_INLINE void sum_maps(int64_t u, const V* x, const V* h, V* z) const {
        V sum[units][MAPS];
        for (int k = 0; k < units; ++k)
            for (int m = 0; m < MAPS; ++m) sum[k][m] = all<T>(bias[MAPS * (u + k) + m]);
        add_sources<units>(sum, from_x.data() + G * u * I, Rule::map_of_x, x, I);
        add_sources<units>(sum, from_h.data() + G * u * U, Rule::map_of_h, h, U);
        std::memcpy(z + MAPS * u, sum, sizeof(sum));
    }

    template <bool record>
    void step(V* scratch, const V* x, V* v, V) const {
        V *z = scratch, *kept = z + MAPS * U, *old = kept + U;
        if (record) std::memcpy(old, v, N * sizeof(V));
        int64_t u = 0;
        for (; u + K <= U; u += K) sum_maps<K>(u, x, v, z);
        for (; u < U; ++u) sum_maps<1>(u, x, v, z);
        for (u = 0; u < U; ++u) Rule::move(z + MAPS * u, v, u, U, kept + u);
    }

    // No sums: Python computes the gradients of the weights from d_maps.
    int64_t accumulators() const { return 0; }
    void finish(const double*) const {}

    // Adds what a group of units sends back to some of `count` sources; `sum` has an entry for each source and gate.
    template <int units, int sources>
    static NCP_INLINE void add_units(V (&sum)[sources][G], const T* weight, const int (&map)[G], const V* d_maps) {
        for (int k = 0; k < units; ++k)
            for (int m = 0; m < G; ++m)
                for (int s = 0; s < sources; ++s)
                    sum[s][m] += weight[(s * units + k) * G + m] * d_maps[MAPS * k + map[m]];
    }

    template <int sources>
    NCP_INLINE void add_back(const T* weight, const int (&map)[G], const V* d_maps, int64_t s, int64_t count,
                             V* grad) const {
        V sum[sources][G] = {};
        int64_t u = 0;
        for (; u + K <= U; u += K) add_units<K>(sum, weight + (u * count + s * K) * G, map, d_maps + MAPS * u);
        for (; u < U; ++u) add_units<1>(sum, weight + (u * count + s) * G, map, d_maps + MAPS * u);
        for (int i = 0; i < sources; ++i)
            for (int m = 0; m < G; ++m) grad[s + i] += sum[i][m];
    }

    // Adds to the gradients of `count` sources what flows back from the maps.
    void back_to_sources(const T* weight, const int (&map)[G], const V* d_maps, int64_t count, V* grad) const {
        int64_t s = 0;
        for (; s + K <= count; s += K) add_back<K>(weight, map, d_maps, s, count, grad);
        for (; s < count; ++s) add_back<1>(weight, map, d_maps, s, count, grad);
    }

    V step_back(V* scratch, const V*, V* g, V* dx, V, V*) const {
        V *z = scratch, *kept = z + MAPS * U, *old = kept + U;
        for (int64_t u = 0; u < U; ++u) Rule::back(z + MAPS * u, old, g, u, U, kept[u]);
        if (problem.grad_x) back_to_sources(from_x.data(), Rule::map_of_x, z, I, dx);
        back_to_sources(from_h.data(), Rule::map_of_h, z, U, g);
        return V{};
    }

    // Stores the gradients of the maps of `rows` rows at step t.
    void write_back(const V* scratch, int64_t row, int64_t t, int rows) const {
        const int64_t count = MAPS * U, time = problem.time;
        store_rows<T>(scratch, static_cast<T*>(p.d_maps) + (row * time + t) * count, time * count, rows, count);
    }
};

template <typename T>
using LSTM = Gated<T, LSTMRule>;
template <typename T>
using GRU = Gated<T, GRURule>;

template <typename T, template <typename> class Rule>
constexpr bool writes_back<Gated<T, Rule>> = true;

}  // namespace ncp

NCP_CELL(ncp_lstm, LSTM, GatedArguments)
NCP_CELL(ncp_gru, GRU, GatedArguments)
