// Fibers: stacks that a thread of the system runs in turns.
#pragma once

#include <cstddef>

namespace cuemu {
// The stacks of a block's threads. Memory of pages that no thread reaches is never taken.
class Stacks {
public:
    Stacks() = default;
    Stacks(const Stacks&) = delete;
    Stacks& operator=(const Stacks&) = delete;
    ~Stacks();

    // Room for `count` stacks; contents are lost.
    void reserve(size_t count);
    // A context that runs `main` on stack `index` when it is switched to. `main` must not return.
    void* context(size_t index, void (*main)());
    // Whether the context has kept to its stack.
    bool intact(size_t index) const;

private:
    char* memory_ = nullptr;
    size_t count_ = 0;
};

// A context for the thread of the system itself, to switch back to.
void* own_context();
}  // namespace cuemu

// Leaves the running context, which is kept in `from`, and goes on with `to`.
extern "C" void cuemu_switch(void** from, void** to);
