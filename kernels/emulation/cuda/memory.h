// Loads and stores with hints, fences and atomics. Blocks run on threads of the system, so atomics are those of the host.
#pragma once

#define CUEMU_LOAD(name)                                                                                          \
    template <class T>                                                                                            \
    inline T name(const T* from) {                                                                                \
        return *from;                                                                                             \
    }
#define CUEMU_STORE(name)                                                                                         \
    template <class T>                                                                                            \
    inline void name(T* to, cuemu::Given<T> value) {                                                              \
        *to = value;                                                                                              \
    }

namespace cuemu {
// Arguments that are converted to `T` instead of deciding what `T` is, as with CUDA's overloads.
template <class T>
struct Identity {
    typedef T Type;
};
template <class T>
using Given = typename Identity<T>::Type;

template <class T, class Next>
inline T update(T* at, Next next) {
    T seen = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(at, &seen, next(seen), false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
    }
    return seen;
}
}  // namespace cuemu

CUEMU_LOAD(__ldg)
CUEMU_LOAD(__ldca)
CUEMU_LOAD(__ldcg)
CUEMU_LOAD(__ldcs)
CUEMU_LOAD(__ldlu)
CUEMU_LOAD(__ldcv)
CUEMU_STORE(__stwb)
CUEMU_STORE(__stcg)
CUEMU_STORE(__stcs)
CUEMU_STORE(__stwt)
#undef CUEMU_LOAD
#undef CUEMU_STORE

// There is one address space, so a generic address is the address.
inline void* __cvta_global_to_generic(size_t address) { return (void*)address; }
inline size_t __cvta_generic_to_global(const void* address) { return (size_t)address; }

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

#define CUEMU_ATOMICS(T)                                                                                          \
    inline T atomicAdd(T* at, T value) { return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST); }                \
    inline T atomicExch(T* at, T value) { return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST); }              \
    inline T atomicCAS(T* at, T expected, T value) {                                                              \
        __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);             \
        return expected;                                                                                          \
    }                                                                                                             \
    inline T atomicAnd(T* at, T value) { return __atomic_fetch_and(at, value, __ATOMIC_SEQ_CST); }                \
    inline T atomicOr(T* at, T value) { return __atomic_fetch_or(at, value, __ATOMIC_SEQ_CST); }                  \
    inline T atomicXor(T* at, T value) { return __atomic_fetch_xor(at, value, __ATOMIC_SEQ_CST); }                \
    inline T atomicMin(T* at, T value) {                                                                          \
        return cuemu::update(at, [value](T seen) { return seen < value ? seen : value; });                        \
    }                                                                                                             \
    inline T atomicMax(T* at, T value) {                                                                          \
        return cuemu::update(at, [value](T seen) { return seen > value ? seen : value; });                        \
    }
CUEMU_ATOMICS(int)
CUEMU_ATOMICS(unsigned)
CUEMU_ATOMICS(unsigned long long)
#undef CUEMU_ATOMICS
inline int atomicSub(int* at, int value) { return __atomic_fetch_sub(at, value, __ATOMIC_SEQ_CST); }
inline unsigned atomicSub(unsigned* at, unsigned value) { return __atomic_fetch_sub(at, value, __ATOMIC_SEQ_CST); }
inline unsigned atomicInc(unsigned* at, unsigned last) {
    return cuemu::update(at, [last](unsigned seen) { return seen >= last ? 0u : seen + 1u; });
}
inline float atomicAdd(float* at, float value) {
    const unsigned seen = cuemu::update((unsigned*)at, [value](unsigned bits) {
        return __float_as_uint(__uint_as_float(bits) + value);
    });
    return __uint_as_float(seen);
}
