//! The C++ files of this crate, which a build writes out again: a test binary may run where the sources are not.

/// Headers that every kernel source is compiled with; the first is force-included.
pub(crate) const CUDA: [(&str, &str); 8] = [
    ("cuda.h", include_str!("../cuda/cuda.h")),
    ("vectors.h", include_str!("../cuda/vectors.h")),
    ("here.h", include_str!("../cuda/here.h")),
    ("calls.h", include_str!("../cuda/calls.h")),
    ("collectives.h", include_str!("../cuda/collectives.h")),
    ("bits.h", include_str!("../cuda/bits.h")),
    ("packed.h", include_str!("../cuda/packed.h")),
    ("memory.h", include_str!("../cuda/memory.h")),
];

/// Header that follows every kernel source.
pub(crate) const MODULE: (&str, &str) = ("module.h", include_str!("../cuda/module.h"));

/// Headers of the fake driver.
pub(crate) const RUNTIME_HEADERS: [(&str, &str); 9] = [
    ("api.h", include_str!("../runtime/api.h")),
    ("block.h", include_str!("../runtime/block.h")),
    ("fiber.h", include_str!("../runtime/fiber.h")),
    ("grid.h", include_str!("../runtime/grid.h")),
    ("kernel_side.h", include_str!("../runtime/kernel_side.h")),
    ("memory.h", include_str!("../runtime/memory.h")),
    ("shared_memory.h", include_str!("../runtime/shared_memory.h")),
    ("state.h", include_str!("../runtime/state.h")),
    ("stream.h", include_str!("../runtime/stream.h")),
];

/// Sources of the fake driver.
pub(crate) const RUNTIME: [(&str, &str); 10] = [
    ("api_device.cpp", include_str!("../runtime/api_device.cpp")),
    ("api_memory.cpp", include_str!("../runtime/api_memory.cpp")),
    ("api_module.cpp", include_str!("../runtime/api_module.cpp")),
    ("block.cpp", include_str!("../runtime/block.cpp")),
    ("fiber.cpp", include_str!("../runtime/fiber.cpp")),
    ("grid.cpp", include_str!("../runtime/grid.cpp")),
    ("memory.cpp", include_str!("../runtime/memory.cpp")),
    ("shared_memory.cpp", include_str!("../runtime/shared_memory.cpp")),
    ("state.cpp", include_str!("../runtime/state.cpp")),
    ("stream.cpp", include_str!("../runtime/stream.cpp")),
];

/// Source of the fake compiler.
pub(crate) const NVRTC: (&str, &str) = ("nvrtc.cpp", include_str!("../runtime/nvrtc.cpp"));
