// Where a module's shared memory lies in the calling thread of the system.
//
// Shared variables of a module are thread-local, and a module has no other thread-local variables: its whole thread-local
// segment is shared memory.
#pragma once

#include "kernel_side.h"

namespace cuemu {
class SharedMemory {
public:
    static SharedMemory& of(const Module& module);

    // Fills what a block with `dynamic_bytes` can use, and some of what is behind.
    void poison(unsigned dynamic_bytes);
    // Whether the memory behind the dynamic part is as `poison` left it.
    bool rest_is_poison(unsigned dynamic_bytes) const;

private:
    char *begin_ = nullptr, *end_ = nullptr, *dynamic_ = nullptr;
    unsigned capacity_ = 0;
};
}  // namespace cuemu
