// A portable subset of CUDA C++ for the compiler of the host, force-included before a kernel source.
//
// It is no CUDA: no inline PTX, no textures, no cooperative groups, no weak memory order. What it has, it has as CUDA
// documents it, or it ends the process with a message (see `collectives.h`).
//
// Nothing of the standard library is included, so that sources can define their own `uint64_t` and compile fast.
#pragma once

// Sources can ask whether they are emulated. `__CUDA_ARCH__` stays undefined: nothing that needs one architecture is here.
#define ZIPWIRE_EMULATION 1

#define __global__
#define __device__
#define __host__
#define __constant__ static
// What is inlined is up to the compiler of the host: all at all places would take it six times as long.
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))
#ifndef __clang__
#define __builtin_assume(condition) ((void)0)
#endif

// One block runs on one thread of the system at a time, so shared memory is memory of that thread. The runtime fills all of
// it with poison before each block. `extern __shared__` arrays are defined by the code behind the source, see `module.h`.
//
// `used`, or the compiler would read zeros from what no thread writes. Alignment is `__align__`, not `alignas`.
#define __shared__ __attribute__((used)) thread_local

typedef __SIZE_TYPE__ size_t;

#include "vectors.h"
#include "here.h"
#include "collectives.h"
#include "bits.h"
#include "packed.h"
#include "memory.h"
