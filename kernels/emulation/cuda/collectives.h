// Calls in which the threads of a warp or of a block meet. The line of the caller is for error messages.
#pragma once

#include "calls.h"

#define CUEMU_LINE unsigned line = __builtin_LINE()

inline void __syncthreads(CUEMU_LINE) {
    cuemu_barrier(cuemu::Call::sync_threads, 0, line);
}
inline int __syncthreads_count(int predicate, CUEMU_LINE) {
    return cuemu_barrier(cuemu::Call::sync_threads_count, predicate, line);
}
inline int __syncthreads_and(int predicate, CUEMU_LINE) {
    return cuemu_barrier(cuemu::Call::sync_threads_and, predicate, line);
}
inline int __syncthreads_or(int predicate, CUEMU_LINE) {
    return cuemu_barrier(cuemu::Call::sync_threads_or, predicate, line);
}
inline void __nanosleep(unsigned, CUEMU_LINE) {
    cuemu_pause(line);
}

inline void __syncwarp(unsigned mask = 0xffffffffu, CUEMU_LINE) {
    cuemu_meet(mask, cuemu::Call::sync_warp, 0, 0, line);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, CUEMU_LINE) {
    return (unsigned)cuemu_meet(mask, cuemu::Call::ballot, predicate != 0, 0, line);
}
inline int __any_sync(unsigned mask, int predicate, CUEMU_LINE) {
    return cuemu_meet(mask, cuemu::Call::any, predicate != 0, 0, line) != 0;
}
inline int __all_sync(unsigned mask, int predicate, CUEMU_LINE) {
    return cuemu_meet(mask, cuemu::Call::all, predicate != 0, 0, line) != 0;
}
// Which lanes are active is up to the hardware, so no correct kernel can depend on it.
unsigned __activemask() __attribute__((error("__activemask() is not in the portable subset: pass masks down")));

namespace cuemu {
inline unsigned lane() {
    const Here& here = cuemu_here;
    return (here.thread->x + here.block_size.x * (here.thread->y + here.block_size.y * here.thread->z)) & 31u;
}

template <class T>
inline T shuffle(unsigned mask, Call call, T value, unsigned source, unsigned line) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 32 or 64 bits");
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    bits = cuemu_meet(mask, call, bits, source, line);
    T result;
    __builtin_memcpy(&result, &bits, sizeof result);
    return result;
}

template <class T>
inline unsigned long long bits_of(T value) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "values are compared as 32 or 64 bits");
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    return bits;
}
}  // namespace cuemu

template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, CUEMU_LINE) {
    const unsigned first = cuemu::lane() & ~unsigned(width - 1);
    return cuemu::shuffle(mask, cuemu::Call::shuffle, value, first + (unsigned(source) & unsigned(width - 1)), line);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, CUEMU_LINE) {
    const unsigned lane = cuemu::lane(), inside = lane & unsigned(width - 1);
    return cuemu::shuffle(mask, cuemu::Call::shuffle_up, value, delta <= inside ? lane - delta : lane, line);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, CUEMU_LINE) {
    const unsigned lane = cuemu::lane(), inside = lane & unsigned(width - 1);
    return cuemu::shuffle(mask, cuemu::Call::shuffle_down, value, delta < unsigned(width) - inside ? lane + delta : lane,
                          line);
}
// Lanes of earlier groups can be read, those of later groups cannot: so says the programming guide.
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, CUEMU_LINE) {
    const unsigned lane = cuemu::lane(), source = lane ^ unsigned(lane_mask), last = lane | unsigned(width - 1);
    return cuemu::shuffle(mask, cuemu::Call::shuffle_xor, value, source <= last ? source : lane, line);
}

template <class T>
inline unsigned __match_any_sync(unsigned mask, T value, CUEMU_LINE) {
    return (unsigned)cuemu_meet(mask, cuemu::Call::match_any, cuemu::bits_of(value), 0, line);
}
template <class T>
inline unsigned __match_all_sync(unsigned mask, T value, int* all, CUEMU_LINE) {
    const unsigned same = (unsigned)cuemu_meet(mask, cuemu::Call::match_all, cuemu::bits_of(value), 0, line);
    *all = same != 0;
    return same;
}

#define CUEMU_REDUCE(name, type, call)                                                                            \
    inline type __reduce_##name##_sync(unsigned mask, type value, CUEMU_LINE) {                                   \
        return (type)cuemu_meet(mask, cuemu::Call::call, (unsigned)value, 0, line);                               \
    }
CUEMU_REDUCE(add, unsigned, add)
CUEMU_REDUCE(add, int, add)
CUEMU_REDUCE(min, unsigned, min_unsigned)
CUEMU_REDUCE(min, int, min_signed)
CUEMU_REDUCE(max, unsigned, max_unsigned)
CUEMU_REDUCE(max, int, max_signed)
CUEMU_REDUCE(and, unsigned, bit_and)
CUEMU_REDUCE(or, unsigned, bit_or)
CUEMU_REDUCE(xor, unsigned, bit_xor)
#undef CUEMU_REDUCE
#undef CUEMU_LINE
