// Memory of devices and page-locked memory of the host, with guards around each allocation.
#pragma once

#include <cstdint>

#include "api.h"

namespace fake {
enum class Kind { device, locked, pageable, bad };

// New memory, filled with 0xCD. Null if there is not enough.
void* allocate(size_t bytes, Context* context, Kind kind);

// Owner of a memory range: `pageable` if it is the host's own, `bad` if it begins in an allocation and leaves it.
struct Range {
    Kind kind;
    Context* context;
    // Of its allocation.
    uintptr_t begin;
    size_t bytes;
};
Range range_of(const void* begin, size_t bytes);

// From now on nobody may name the allocation that begins here; its memory stays until `release`. Returns its context, or
// null if no allocation of this kind begins here.
Context* retire(void* begin, Kind kind);
// Gives retired memory back. It is kept for a while, to see whether somebody still writes to it.
void release(void* begin);

// Looks at all guards, and at what was released last. If something was overwritten it says what, and the error sticks.
void check_guards();

uint64_t bytes_allocated(const Context* context);
uint64_t live_allocations();
}  // namespace fake
