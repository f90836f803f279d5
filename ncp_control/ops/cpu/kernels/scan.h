// The loop over blocks of rows and over time that all cells share.
//
// A block is W rows, one in each lane. It goes through its whole sequence before the next block starts, so its state
// stays in the cache. The backward pass reads only the states after every step (the output of the forward pass) and
// computes each step's unfolds again from the state before it, so memory grows with batch * time * neurons.
//
// A cell defines:
//   T                                              its float type
//   scratch_vectors(record), accumulators()        how many vectors of work memory and of sums it needs
//   step<record>(scratch, x, v, elapsed)           moves the state v by one step; `record` keeps what step_back reads
//   step_back(scratch, x, g, dx, elapsed, sums)    follows a recorded step: turns the gradient g of the new state into
//                                                  that of the old state, adds to dx and to the sums, and returns the
//                                                  gradient of elapsed
//   finish(sums)                                   writes the parameters' gradients from the sums over rows and steps
//   has_row_path, row_scratch(),                   whether and how it moves a single row by itself, with its synapses
//   step_row(scratch, x, v, elapsed)               in the lanes
//   write_back(scratch, row, t, rows)              only where `writes_back`: called after every step_back
#pragma once

#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#include "lanes.h"

namespace ncp {

// Python fills this struct (ops/cpu/structs.py has the same names): every field has eight bytes.
struct Problem {
    int64_t batch, time, inputs, units, threads;
    const void* x;        // (B, T, I)
    const void* state;    // (B, N)
    const void* elapsed;  // with the strides below, in elements; both are 0 for a single number
    int64_t elapsed_row_stride, elapsed_time_stride;
    const uint8_t* reset;  // (B, T) or null
    const uint8_t* mask;   // (B, T) or null
    void* states;          // (B, T, N): the forward pass writes it, the backward pass reads it
    const void* grad_states;
    void* grad_x;        // (B, T, I), or null where it is not wanted
    void* grad_state;    // (B, N)
    void* grad_elapsed;  // (B, T), or null where it is not wanted
    // The outputs are the states motor .. motor + outputs - 1, scaled and shifted where scale and shift are not null.
    int64_t motor, outputs;
    const void *output_scale, *output_shift;  // (O,)
    void* values;                             // (B, T, O): the forward pass writes it, or null where not wanted
    const void* grad_values;                  // (B, T, O), or null; then grad_states may be null
    void *d_output_scale, *d_output_shift;    // (O,)
};

// Vectors at an aligned address. They start as NaN in every lane, so that a read of memory never written shows.
template <typename T>
struct AlignedBuffer {
    std::vector<unsigned char> bytes;
    Vec<T>* data;

    explicit AlignedBuffer(size_t vectors) : bytes((vectors + 1) * NCP_VECTOR_BYTES, 0xff) {
        uintptr_t start = reinterpret_cast<uintptr_t>(bytes.data());
        data = reinterpret_cast<Vec<T>*>((start + NCP_VECTOR_BYTES - 1) / NCP_VECTOR_BYTES * NCP_VECTOR_BYTES);
    }
};

// Makes columns of rows: to[c * to_stride + r] becomes from[r * from_stride + c]. Squares of four by four numbers go
// through registers: one by one, they would cost a seventh of a forward pass.
template <typename T>
NCP_INLINE void transpose(const T* from, int64_t from_stride, int64_t rows, int64_t columns, T* to, int64_t to_stride) {
    int64_t r = 0;
#if defined(__SSE2__)
    if constexpr (sizeof(T) == 4) {
        for (; r + 4 <= rows; r += 4) {
            const T* row = from + r * from_stride;
            int64_t c = 0;
            for (; c + 4 <= columns; c += 4) {
                __m128 q[4];
                for (int k = 0; k < 4; ++k) q[k] = _mm_loadu_ps(row + k * from_stride + c);
                _MM_TRANSPOSE4_PS(q[0], q[1], q[2], q[3]);
                for (int k = 0; k < 4; ++k) _mm_storeu_ps(to + (c + k) * to_stride + r, q[k]);
            }
            for (; c < columns; ++c)
                for (int k = 0; k < 4; ++k) to[c * to_stride + r + k] = row[k * from_stride + c];
        }
    }
#endif
    for (; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) to[c * to_stride + r] = from[r * from_stride + c];
}

// Loads `rows` rows of a row-major array into lanes; the lanes past the last row become zero.
template <typename T>
NCP_INLINE void load_rows(const T* from, int64_t row_stride, int rows, int64_t count, Vec<T>* to) {
    if (rows < Lanes<T>::W) std::memset(to, 0, count * sizeof(Vec<T>));
    transpose<T>(from, row_stride, rows, count, reinterpret_cast<T*>(to), Lanes<T>::W);
}

// Stores lanes into `rows` rows of a row-major array.
template <typename T>
NCP_INLINE void store_rows(const Vec<T>* from, T* to, int64_t row_stride, int rows, int64_t count) {
    transpose<T>(reinterpret_cast<const T*>(from), Lanes<T>::W, count, rows, to, row_stride);
}

// Prefetches the rows of a coming step: they lie in more separate places than the processor predicts by itself.
template <typename T>
NCP_INLINE void prefetch_rows(const T* from, int64_t row_stride, int rows, int64_t count) {
    for (int lane = 0; lane < rows; ++lane)
        for (int64_t i = 0; i < count; i += 64 / sizeof(T)) __builtin_prefetch(from + lane * row_stride + i, 0, 3);
}

// Loads the flags of one time step into lanes of all ones or zeros; the lanes past the last row are zero. Returns
// whether any flag is set.
template <typename T>
NCP_INLINE bool load_flags(const uint8_t* flags, int64_t time, int64_t t, int rows, typename Lanes<T>::I* to) {
    typename Lanes<T>::I lanes = {};
    bool any = false;
    for (int lane = 0; lane < rows; ++lane) {
        bool on = flags[lane * time + t] != 0;
        lanes[lane] = on ? -1 : 0;
        any |= on;
    }
    *to = lanes;
    return any;
}

// The elapsed time of `rows` rows at step t.
template <typename T>
NCP_INLINE Vec<T> load_elapsed(const Problem& p, int64_t row, int64_t t, int rows) {
    const T* from = static_cast<const T*>(p.elapsed) + row * p.elapsed_row_stride + t * p.elapsed_time_stride;
    Vec<T> lanes = all<T>(from[0]);
    if (p.elapsed_row_stride)
        for (int lane = 1; lane < rows; ++lane) lanes[lane] = from[lane * p.elapsed_row_stride];
    return lanes;
}

// Writes the outputs of `rows` rows at step t, from their states v.
template <typename T>
NCP_INLINE void store_values(const Problem& p, const Vec<T>* v, int64_t row, int64_t t, int rows, Vec<T>* work) {
    const int64_t O = p.outputs;
    const T *scale = static_cast<const T*>(p.output_scale), *shift = static_cast<const T*>(p.output_shift);
    for (int64_t o = 0; o < O; ++o) {
        Vec<T> value = v[p.motor + o];
        if (scale) value = shift ? value * scale[o] + shift[o] : value * scale[o];
        work[o] = value;
    }
    store_rows<T>(work, static_cast<T*>(p.values) + (row * p.time + t) * O, p.time * O, rows, O);
}

// Adds to the gradients g of the states at step t what comes from the outputs, and to the sums of scale and shift.
template <typename T>
NCP_INLINE void values_back(const Problem& p, Vec<T>* g, int64_t row, int64_t t, int rows, Vec<T>* work, Vec<T>* sums) {
    const int64_t O = p.outputs, N = p.units, at = row * p.time + t;
    const T* scale = static_cast<const T*>(p.output_scale);
    Vec<T>*d = work, *v = d + O;
    load_rows<T>(static_cast<const T*>(p.grad_values) + at * O, p.time * O, rows, O, d);
    if (scale) load_rows<T>(static_cast<const T*>(p.states) + at * N + p.motor, p.time * N, rows, O, v);
    for (int64_t o = 0; o < O; ++o) {
        g[p.motor + o] += scale ? d[o] * scale[o] : d[o];
        if (scale) {
            sums[o] += d[o] * v[o];
            sums[O + o] += d[o];
        }
    }
}

// Whether a cell's backward pass writes something at every step; a cell that does so sets it to true.
template <class Cell>
constexpr bool writes_back = false;

// Takes one block of rows forward through the whole sequence.
template <class Cell>
void forward_block(const Cell& cell, const Problem& p, int64_t row, int rows, Vec<typename Cell::T>* scratch) {
    typedef typename Cell::T T;
    const int64_t N = p.units, I = p.inputs, S = p.time;
    Vec<T>*v = scratch, *x = v + N, *kept = x + I, *values = kept + N, *work = values + p.outputs;
    load_rows<T>(static_cast<const T*>(p.state) + row * N, N, rows, N, v);
    for (int64_t t = 0; t < S; ++t) {
        typename Lanes<T>::I flags;
        if (p.reset && load_flags<T>(p.reset + row * S, S, t, rows, &flags))
            for (int64_t j = 0; j < N; ++j) v[j] = flags ? Vec<T>{} : v[j];
        load_rows<T>(static_cast<const T*>(p.x) + (row * S + t) * I, S * I, rows, I, x);
        if (p.mask) std::memcpy(kept, v, N * sizeof(Vec<T>));
        cell.template step<false>(work, x, v, load_elapsed<T>(p, row, t, rows));
        if (p.mask) {
            load_flags<T>(p.mask + row * S, S, t, rows, &flags);
            for (int64_t j = 0; j < N; ++j) v[j] = flags ? v[j] : kept[j];
        }
        store_rows<T>(v, static_cast<T*>(p.states) + (row * S + t) * N, S * N, rows, N);
        if (p.values) store_values<T>(p, v, row, t, rows, values);
    }
}

// Takes one block of rows backward through the whole sequence.
template <class Cell>
void backward_block(const Cell& cell, const Problem& p, int64_t row, int rows, Vec<typename Cell::T>* scratch,
                    Vec<typename Cell::T>* sums) {
    typedef typename Cell::T T;
    const int64_t N = p.units, I = p.inputs, S = p.time;
    Vec<T>*g = scratch, *x = g + N, *dx = x + I, *v = dx + I, *dy = v + N, *held = dy + N, *values = held + N,
          *work = values + 2 * p.outputs, *motor_sums = sums + cell.accumulators();
    for (int64_t j = 0; j < N; ++j) g[j] = Vec<T>{};
    for (int64_t t = S - 1; t >= 0; --t) {
        typename Lanes<T>::I reset = {}, mask;
        const T* before = t ? static_cast<const T*>(p.states) + (row * S + t - 1) * N
                            : static_cast<const T*>(p.state) + row * N;
        load_rows<T>(before, t ? S * N : N, rows, N, v);
        if (t > 1) {
            prefetch_rows<T>(before - N, S * N, rows, N);
            if (p.grad_states)
                prefetch_rows<T>(static_cast<const T*>(p.grad_states) + (row * S + t - 1) * N, S * N, rows, N);
        }
        bool any_reset = p.reset && load_flags<T>(p.reset + row * S, S, t, rows, &reset);
        if (any_reset)
            for (int64_t j = 0; j < N; ++j) v[j] = reset ? Vec<T>{} : v[j];
        load_rows<T>(static_cast<const T*>(p.x) + (row * S + t) * I, S * I, rows, I, x);
        Vec<T> elapsed = load_elapsed<T>(p, row, t, rows);
        if (p.grad_states) {
            load_rows<T>(static_cast<const T*>(p.grad_states) + (row * S + t) * N, S * N, rows, N, dy);
            for (int64_t j = 0; j < N; ++j) g[j] += dy[j];
        }
        if (p.grad_values) values_back<T>(p, g, row, t, rows, values, motor_sums);
        if (p.mask) {
            load_flags<T>(p.mask + row * S, S, t, rows, &mask);
            for (int64_t j = 0; j < N; ++j) {
                held[j] = mask ? Vec<T>{} : g[j];
                g[j] = mask ? g[j] : Vec<T>{};
            }
        }
        cell.template step<true>(work, x, v, elapsed);
        std::memset(dx, 0, I * sizeof(Vec<T>));
        Vec<T> d_elapsed = cell.step_back(work, x, g, dx, elapsed, sums);
        if constexpr (writes_back<Cell>) cell.write_back(work, row, t, rows);
        if (p.mask)
            for (int64_t j = 0; j < N; ++j) g[j] += held[j];
        if (any_reset)
            for (int64_t j = 0; j < N; ++j) g[j] = reset ? Vec<T>{} : g[j];
        if (p.grad_x) store_rows<T>(dx, static_cast<T*>(p.grad_x) + (row * S + t) * I, S * I, rows, I);
        if (p.grad_elapsed) store_rows<T>(&d_elapsed, static_cast<T*>(p.grad_elapsed) + row * S + t, S, rows, 1);
    }
    store_rows<T>(g, static_cast<T*>(p.grad_state) + row * N, N, rows, N);
}

// One buffer for each thread, allocated before any thread starts, while a lack of memory can still be reported.
template <typename T>
std::vector<AlignedBuffer<T>> buffers(int64_t threads, size_t vectors) {
    std::vector<AlignedBuffer<T>> all;
    for (int64_t k = 0; k < threads; ++k) all.emplace_back(vectors);
    return all;
}

// No more threads than blocks.
inline int64_t useful_threads(int64_t asked, int64_t blocks) {
    return asked < 1 || blocks < 2 ? 1 : (asked < blocks ? asked : blocks);
}

// While it lives, the processor takes denormal numbers for zero. The derivative of a shut synapse can be denormal, and
// each such number would cost a hundred times the work.
struct FlushTiny {
#if defined(__SSE2__)
    unsigned before;
    FlushTiny() : before(_mm_getcsr()) { _mm_setcsr(before | 0x8040); }
    ~FlushTiny() { _mm_setcsr(before); }
#endif
};

// Calls work(first, last, thread) on equal shares of `blocks`. Threads live for one call only, so that a forked child
// has none to wait for. The shares depend on the number of threads alone. Where the system starts no more threads, the
// calling thread does the remaining shares after its own.
template <class Work>
void share(int64_t blocks, int64_t threads, Work work) {
    auto quietly = [&work](int64_t first, int64_t last, int64_t k) {
        FlushTiny flush;
        work(first, last, k);
    };
    std::vector<std::thread> pool;
    pool.reserve(threads);
    int64_t given = 1;
    try {
        for (; given < threads; ++given)
            pool.emplace_back(quietly, blocks * given / threads, blocks * (given + 1) / threads, given);
    } catch (const std::system_error&) {
    }
    quietly(0, blocks / threads, 0);
    for (int64_t k = given; k < threads; ++k) quietly(blocks * k / threads, blocks * (k + 1) / threads, k);
    for (auto& thread : pool) thread.join();
}

// Takes a single row forward, for a cell that can spread its synapses over the lanes instead of rows.
template <class Cell>
void forward_row(const Cell& cell, const Problem& p, int64_t row, typename Cell::T* scratch) {
    typedef typename Cell::T T;
    const int64_t N = p.units;
    T *v = scratch, *kept = v + N, *work = kept + N;
    std::memcpy(v, static_cast<const T*>(p.state) + row * N, N * sizeof(T));
    for (int64_t t = 0; t < p.time; ++t) {
        const int64_t at = row * p.time + t;
        if (p.reset && p.reset[at]) std::memset(v, 0, N * sizeof(T));
        if (!p.mask || p.mask[at]) {
            const T* elapsed = static_cast<const T*>(p.elapsed);
            cell.step_row(work, static_cast<const T*>(p.x) + at * p.inputs, v,
                          elapsed[row * p.elapsed_row_stride + t * p.elapsed_time_stride]);
        }
        std::memcpy(static_cast<T*>(p.states) + at * N, v, N * sizeof(T));
        if (!p.values) continue;
        const T *scale = static_cast<const T*>(p.output_scale), *shift = static_cast<const T*>(p.output_shift);
        for (int64_t o = 0; o < p.outputs; ++o) {
            T value = v[p.motor + o];
            if (scale) value = shift ? value * scale[o] + shift[o] : value * scale[o];
            static_cast<T*>(p.values)[at * p.outputs + o] = value;
        }
    }
}

// Fills `states`.
template <class Cell>
void scan_forward(const Cell& cell, const Problem& p) {
    typedef typename Cell::T T;
    constexpr int W = Lanes<T>::W;
    if (Cell::has_row_path && p.batch <= (W < 8 ? 1 : W / 4)) {
        std::vector<T> scratch(2 * p.units + cell.row_scratch());
        for (int64_t row = 0; row < p.batch; ++row) forward_row(cell, p, row, scratch.data());
        return;
    }
    const int64_t blocks = (p.batch + W - 1) / W, threads = useful_threads(p.threads, blocks);
    auto scratches = buffers<T>(threads, 2 * p.units + p.inputs + p.outputs + cell.scratch_vectors(false));
    share(blocks, threads, [&](int64_t first, int64_t last, int64_t k) {
        for (int64_t block = first; block < last; ++block) {
            int64_t row = block * W, left = p.batch - row;
            forward_block(cell, p, row, left < W ? int(left) : W, scratches[k].data);
        }
    });
}

// So many steps of blocks of rows are summed in single precision at most, if a sequence is not longer itself.
constexpr int64_t STEPS_SUMMED = 32;

// Fills every gradient.
template <class Cell>
void scan_backward(Cell& cell, const Problem& p) {
    typedef typename Cell::T T;
    constexpr int W = Lanes<T>::W;
    const int64_t blocks = (p.batch + W - 1) / W, threads = useful_threads(p.threads, blocks);
    const int64_t own = cell.accumulators(), count = own + 2 * p.outputs;
    auto scratches = buffers<T>(threads, 4 * p.units + 2 * p.inputs + 2 * p.outputs + cell.scratch_vectors(true));
    auto lane_sums = buffers<T>(threads, count);
    std::vector<std::vector<double>> shares(threads, std::vector<double>(count));
    share(blocks, threads, [&](int64_t first, int64_t last, int64_t k) {
        Vec<T>* sums = lane_sums[k].data;
        int64_t summed = 0;  // steps in the lanes' sums, which go into the double sums before rounding adds up
        for (int64_t block = first; block < last; ++block) {
            int64_t row = block * W, left = p.batch - row;
            if (!summed) std::memset(sums, 0, count * sizeof(Vec<T>));
            backward_block(cell, p, row, left < W ? int(left) : W, scratches[k].data, sums);
            summed += p.time;
            if (summed < STEPS_SUMMED && block + 1 < last) continue;
            for (int64_t i = 0; i < count; ++i) shares[k][i] += sum<T>(sums[i]);
            summed = 0;
        }
    });
    for (int64_t k = 1; k < threads; ++k)
        for (int64_t i = 0; i < count; ++i) shares[0][i] += shares[k][i];
    cell.finish(shares[0].data());
    for (int64_t o = 0; o < p.outputs; ++o) {
        if (p.d_output_scale) static_cast<T*>(p.d_output_scale)[o] = T(shares[0][own + o]);
        if (p.d_output_shift) static_cast<T*>(p.d_output_shift)[o] = T(shares[0][own + p.outputs + o]);
    }
}

}  // namespace ncp
