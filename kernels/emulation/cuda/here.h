// Which thread of which block runs: shared with the runtime, which writes it.
#pragma once

namespace cuemu {
struct Here {
    const uint3* thread;
    uint3 block;
    uint3 block_size;
    uint3 grid_size;
};
}  // namespace cuemu

// Kernels read it at every turn: `initial-exec` makes that one load instead of a call.
extern "C" __thread cuemu::Here cuemu_here __attribute__((tls_model("initial-exec")));

#ifndef CUEMU_RUNTIME
#define threadIdx (*cuemu_here.thread)
#define blockIdx (cuemu_here.block)
#define blockDim (cuemu_here.block_size)
#define gridDim (cuemu_here.grid_size)
constexpr int warpSize = 32;
#endif
