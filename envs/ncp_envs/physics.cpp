// Steps the bodies of many environments in one call, on several threads, with the simulator of MuJoCo's own library.
//
// Neither MuJoCo's headers nor its library are needed to build this: Python hands over the addresses of its functions
// and of each body's model, data and arrays. What a step does is what `MujocoEnv.do_simulation` of Gymnasium does.

#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace {

constexpr size_t MESSAGE = 1024;

typedef void (*Advance)(const void* model, void* data);
typedef void (*ErrorHandler)(const char* message);

struct Body {  // every field of this and of the next struct has eight bytes
    const void* model;
    void* data;
    double *control, *positions, *velocities;
};

struct Steps {
    const Body* bodies;
    int64_t nq, nv, controls, frames;
    Advance step, finish;
    ErrorHandler* on_error;  // MuJoCo's own variable; it ends the process if that is null
    char* message;           // MESSAGE bytes, for the first error
    int64_t count, threads;
    const int64_t* places;  // the bodies that take a step, (count,)
    const double* actions;  // (count, controls)
    double* found;          // (count, 2 nq + nv): the positions before the step, positions and velocities after it
};

thread_local std::jmp_buf* trap = nullptr;
thread_local char trapped[MESSAGE];
std::mutex guard;
int running = 0;
ErrorHandler before = nullptr;

void on_error(const char* message) {
    if (trap) {
        std::strncpy(trapped, message, MESSAGE - 1);
        std::longjmp(*trap, 1);
    }
    if (before) return before(message);
    std::fprintf(stderr, "MuJoCo: %s\n", message);  // an error outside of these calls ends the process, as it always did
    std::exit(1);
}

// While one lives, MuJoCo's errors in this library's threads come to `on_error`.
struct ErrorsCome {
    ErrorHandler* handler;
    explicit ErrorsCome(ErrorHandler* handler) : handler(handler) {
        std::lock_guard<std::mutex> lock(guard);
        if (running++ == 0) {
            before = *handler;
            *handler = on_error;
        }
    }
    ~ErrorsCome() {
        std::lock_guard<std::mutex> lock(guard);
        if (--running == 0) *handler = before;
    }
};

// Takes the steps of some bodies. Returns false at an error, which is in `trapped` then.
bool move(const Steps& s, int64_t first, int64_t last) {
    std::jmp_buf here;
    trap = &here;
    const bool failed = setjmp(here);
    if (!failed)
        for (int64_t k = first; k < last; ++k) {
            const Body& body = s.bodies[s.places[k]];
            double* row = s.found + k * (2 * s.nq + s.nv);
            std::memcpy(row, body.positions, s.nq * sizeof(double));
            std::memcpy(body.control, s.actions + k * s.controls, s.controls * sizeof(double));
            for (int64_t frame = 0; frame < s.frames; ++frame) s.step(body.model, body.data);
            s.finish(body.model, body.data);
            std::memcpy(row + s.nq, body.positions, s.nq * sizeof(double));
            std::memcpy(row + 2 * s.nq, body.velocities, s.nv * sizeof(double));
        }
    trap = nullptr;
    return !failed;
}

}  // namespace

extern "C" int ncp_step_bodies(const Steps* steps) {
    const Steps& s = *steps;
    ErrorsCome errors(s.on_error);
    std::mutex one;
    bool failed = false;
    auto work = [&](int64_t k) {
        if (move(s, s.count * k / s.threads, s.count * (k + 1) / s.threads)) return;
        std::lock_guard<std::mutex> lock(one);
        if (!failed) std::memcpy(s.message, trapped, MESSAGE);
        failed = true;
    };
    // Threads live for one call only, so that a forked child has none to wait for. Where the system starts no more of
    // them, this thread does their work after its own.
    std::vector<std::thread> pool;
    pool.reserve(s.threads);
    int64_t given = 1;
    try {
        for (; given < s.threads; ++given) pool.emplace_back(work, given);
    } catch (const std::system_error&) {
    }
    work(0);
    for (int64_t k = given; k < s.threads; ++k) work(k);
    for (auto& thread : pool) thread.join();
    return failed;
}

extern "C" int ncp_body_struct_bytes() { return sizeof(Body); }
extern "C" int ncp_steps_struct_bytes() { return sizeof(Steps); }
