// The functions that Python calls. setup.py builds one library from this file for each machine level.
#include "affine.h"
#include "cfc.h"
#include "ctgru.h"
#include "dual.h"
#include "gated.h"
#include "level.h"
#include "ltc.h"

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

NCP_CELL(ncp_ltc, LTC, LTCArguments)
NCP_CELL(ncp_affine, Affine, AffineArguments)
NCP_CELL(ncp_affine_rk4, AffineRK4, AffineArguments)
NCP_CELL(ncp_cfc, CfC, CfCArguments)
NCP_CELL(ncp_dual, Dual, DualArguments)
NCP_CELL(ncp_lstm, LSTM, GatedArguments)
NCP_CELL(ncp_gru, GRU, GatedArguments)
NCP_CELL(ncp_ctgru, CTGRU, CTGRUArguments)

extern "C" int ncp_problem_struct_bytes() { return sizeof(ncp::Problem); }

extern "C" int ncp_vector_bytes() { return NCP_VECTOR_BYTES; }

// The best level this processor can run: 2 AVX-512, 1 AVX2, 0 portable.
extern "C" int ncp_best_level() { return ncp::best_level(); }
