// One block of a grid: its threads are fibers of one thread of the system.
//
// Without a seed, a thread runs until it must wait, and the next one of its warp follows. With a seed, threads and warps are
// chosen at random wherever one meets others, and in some blocks one warp runs as far ahead of the others as it can: a
// barrier that is missing then shows in wrong results.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "kernel_side.h"
#include "fiber.h"

namespace cuemu {
// State that all blocks of a launch share.
struct Grid {
    const Module* module;
    const Kernel* kernel;
    dim3 size;
    dim3 block_size;
    unsigned dynamic_bytes;
    void* const* parameters;
    uint64_t seed;
    std::chrono::steady_clock::time_point deadline;

    uint64_t blocks() const { return uint64_t(size.x) * size.y * size.z; }
};

class Block {
public:
    Block();
    // Runs the block of this index to its end, on the calling thread.
    void run(const Grid& grid, uint64_t index);

    unsigned long long meet(unsigned mask, Call call, unsigned long long value, unsigned source, unsigned line);
    int barrier(Call call, int predicate, unsigned line);
    void pause(unsigned line);

private:
    struct Fiber {
        void* context;
        uint3 thread;
        unsigned warp, lane, line;
        Call call;
        bool done;
    };
    // Lanes that wait for one another. Groups of lanes, with masks of their own, may meet at the same time.
    struct Meeting {
        unsigned mask, arrived;
        Call call;
    };
    struct Warp {
        unsigned live, ready, meeting_count;
        Meeting meetings[32];
        unsigned long long value[32], result[32];
        unsigned char source[32];
    };

    static void fiber_main();
    void prepare(const Grid& grid, uint64_t index);
    void poison_shared();
    void check_shared();
    void leave();
    void wait();
    void go_on();
    void go_to(Fiber& next);
    void make_ready(unsigned warp, unsigned lanes);
    // These two are on the way of every lane through every collective.
    [[gnu::always_inline]] inline Meeting& join(Warp& warp, unsigned mask, Call call);
    [[gnu::always_inline]] inline Fiber& pick();
    void finish(unsigned warp, Meeting& meeting);
    void release_barrier();
    unsigned long long random();
    [[noreturn]] void fail(const char* what);

    const Grid* grid_ = nullptr;
    std::vector<Fiber> fibers_;
    std::vector<Warp> warps_;
    Stacks stacks_;
    Fiber* current_ = nullptr;
    void* scheduler_ = nullptr;
    unsigned ready_warps_ = 0, warp_ = 0, live_ = 0, pauses_ = 0;
    uint64_t random_ = 0;
    bool run_ahead_ = false;
    struct {
        Call call;
        unsigned arrived, sum;
        int result;
    } barrier_ = {};
};
}  // namespace cuemu
