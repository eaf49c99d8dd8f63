// Table by which a compiled kernel source shows the runtime its kernels and its shared memory.
#pragma once

namespace cuemu {
struct Kernel {
    const char* name;
    void (*run)(void* const* parameters);
    const unsigned* sizes;     // bytes of each parameter
    unsigned parameters;       // their number
    unsigned max_threads;      // of a block, from `__launch_bounds__`; 0 where there is none
};

struct Module {
    const Kernel* kernels;
    unsigned count;
    unsigned dynamic_bytes;             // capacity of `extern __shared__`; 0 where the source has none
    char* (*dynamic_shared)();          // of the calling thread
    char* (*some_shared)();             // any byte of the calling thread's shared memory: makes the system place it
};

// Of the largest device that is modelled, an H200.
#define CUEMU_DYNAMIC_BYTES 232448
}  // namespace cuemu

#ifndef CUEMU_RUNTIME
namespace cuemu {
template <unsigned... I>
struct Indices {};
template <unsigned N, unsigned... I>
struct Count : Count<N - 1, N - 1, I...> {};
template <unsigned... I>
struct Count<0, I...> {
    typedef Indices<I...> Type;
};

// `Type` is the function's type, from which the sizes of its parameters follow.
template <class Type, Type* kernel>
struct Thunk;
template <class... A, void (*kernel)(A...)>
struct Thunk<void(A...), kernel> {
    static constexpr unsigned count = sizeof...(A);
    static constexpr unsigned sizes[sizeof...(A) + 1] = {sizeof(A)..., 0};

    static void run(void* const* parameters) { call(parameters, typename Count<count>::Type()); }
    template <unsigned... I>
    static void call(void* const* parameters, Indices<I...>) {
        kernel(*(A*)parameters[I]...);
        (void)parameters;
    }
};
}  // namespace cuemu

// One row of the table of kernels.
#define CUEMU_THUNK(name) cuemu::Thunk<decltype(name), name>
#define CUEMU_KERNEL(name, threads)                                                                               \
    { #name, CUEMU_THUNK(name)::run, CUEMU_THUNK(name)::sizes, CUEMU_THUNK(name)::count, threads }

// All `extern __shared__` arrays of a source begin at the same address, whatever their names and types: these are labels of
// one piece of thread-local memory.
#define CUEMU_STRING(text) #text
#define CUEMU_DYNAMIC_LABEL(name) "\n.hidden " #name "\n.globl " #name "\n.type " #name ", %tls_object\n" #name ":"
#define CUEMU_DYNAMIC_SHARED(labels)                                                                              \
    __asm__(".pushsection .tbss,\"awT\",%nobits\n.balign 128" labels CUEMU_DYNAMIC_LABEL(cuemu_dynamic)           \
            "\n.zero 232448\n.popsection\n");                                                                     \
    extern "C" __attribute__((visibility("hidden"))) __thread char cuemu_dynamic[];
#endif
