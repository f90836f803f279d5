// All functions that Python calls. setup.py builds one library from this file for each machine level.
#include "../../../neurons/ltc/kernel.h"
#include "../../../neurons/affine/kernel.h"
#include "../../../neurons/cfc/kernel.h"
#include "../../../neurons/dual/kernel.h"
#include "../../../neurons/gated/kernel.h"
#include "../../../neurons/ct_gru/kernel.h"
#include "level.h"

extern "C" int ncp_problem_struct_bytes() { return sizeof(ncp::Problem); }

extern "C" int ncp_vector_bytes() { return NCP_VECTOR_BYTES; }

// The best level this processor can run: 2 AVX-512, 1 AVX2, 0 portable.
extern "C" int ncp_best_level() { return ncp::best_level(); }
