// The calls in which threads meet, shared between kernels and the runtime.
#pragma once

namespace cuemu {
enum class Call : unsigned char {
    none,
    sync_warp,
    ballot,
    any,
    all,
    shuffle,
    shuffle_up,
    shuffle_down,
    shuffle_xor,
    match_any,
    match_all,
    add,
    min_unsigned,
    max_unsigned,
    min_signed,
    max_signed,
    bit_and,
    bit_or,
    bit_xor,
    sync_threads,
    sync_threads_count,
    sync_threads_and,
    sync_threads_or,
};
}  // namespace cuemu

// Waits until all lanes of `mask` that have not exited have come, and returns the caller's result. `source` is the lane that
// a shuffle reads. Ends the process if lanes meet in different calls or masks, or if nothing can run any more.
extern "C" unsigned long long cuemu_meet(unsigned mask, cuemu::Call call, unsigned long long value, unsigned source,
                                         unsigned line);
// Waits until all threads of the block that have not exited have come.
extern "C" int cuemu_barrier(cuemu::Call call, int predicate, unsigned line);
// Lets other threads run: what a spinning thread must do.
extern "C" void cuemu_pause(unsigned line);
