// How the functions that Python calls are made of a neuron's header, which ends with an NCP_CELL for each of its kinds.
#pragma once

#include "scan.h"

namespace {

template <class Cell, class Arguments>
void forward(const ncp::Problem* problem, const Arguments* arguments) {
    Cell cell(*arguments, *problem);
    ncp::scan_forward(cell, *problem);
}

template <class Cell, class Arguments>
void backward(const ncp::Problem* problem, const Arguments* arguments) {
    Cell cell(*arguments, *problem);
    ncp::scan_backward(cell, *problem);
}

}  // namespace

// A kernel returns zero, or one when memory ran out: no exception may reach the caller.
#define NCP_EXPORT(name, direction, cell, type, arguments)                            \
    extern "C" int name(const ncp::Problem* problem, const ncp::arguments* settings) { \
        try {                                                                         \
            direction<ncp::cell<type>>(problem, settings);                            \
            return 0;                                                                 \
        } catch (const std::exception&) {                                             \
            return 1;                                                                 \
        }                                                                             \
    }

// A cell's kernels, and the size of the struct that they take: Python checks it before it calls them.
#define NCP_CELL(prefix, cell, arguments)                                   \
    NCP_EXPORT(prefix##_forward_f32, forward, cell, float, arguments)       \
    NCP_EXPORT(prefix##_forward_f64, forward, cell, double, arguments)      \
    NCP_EXPORT(prefix##_backward_f32, backward, cell, float, arguments)     \
    NCP_EXPORT(prefix##_backward_f64, backward, cell, double, arguments)    \
    extern "C" int prefix##_struct_bytes() { return sizeof(ncp::arguments); }
