#include "memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include "hook.h"
#include "state.h"

namespace fake {
namespace {
constexpr unsigned char NEW = 0xcd, RELEASED = 0xdd, GUARD = 0xfb;
constexpr size_t GUARD_BYTES = 2048;
// Allocations are aligned to this and no more.
constexpr size_t ALIGNMENT = 256;
constexpr size_t KEPT_BYTES = 64 << 20;

struct Allocation {
    unsigned char *memory, *begin;
    size_t bytes;
    Context* context;
    Kind kind;
    uint64_t number;
    bool retired;
};

std::mutex& mutex() {
    static auto* one = new std::mutex;
    return *one;
}
// By their beginnings.
std::map<uintptr_t, Allocation>& table() {
    static auto* all = new std::map<uintptr_t, Allocation>;
    return *all;
}
std::deque<Allocation>& released() {
    static auto* all = new std::deque<Allocation>;
    return *all;
}
uint64_t allocations_ever = 0;
size_t released_bytes = 0;

// The first byte that is not `value`, or null. Compares long runs at the speed of memory.
const unsigned char* first_other(const unsigned char* begin, size_t bytes, unsigned char value) {
    if (bytes == 0 || (begin[0] == value && memcmp(begin, begin + 1, bytes - 1) == 0)) return nullptr;
    while (*begin == value) ++begin;
    return begin;
}

void complain(const Allocation& allocation, const unsigned char* at, const char* what) {
    fprintf(stderr, "fake driver: %s: byte %td of allocation %llu (%zu bytes at %p, %s) was written\n", what,
            at - allocation.begin, static_cast<unsigned long long>(allocation.number), allocation.bytes,
            static_cast<void*>(allocation.begin), allocation.kind == Kind::device ? "device memory" : "page-locked memory");
    fflush(stderr);
    stick(ILLEGAL_ADDRESS);
}

void check(const Allocation& allocation) {
    const unsigned char* before = allocation.begin - GUARD_BYTES;
    const unsigned char* behind = allocation.begin + allocation.bytes;
    if (const auto* at = first_other(before, GUARD_BYTES, GUARD)) complain(allocation, at, "out of bounds");
    if (const auto* at = first_other(behind, GUARD_BYTES, GUARD)) complain(allocation, at, "out of bounds");
}

// Looks at so many bytes from the beginning.
void check_released(const Allocation& allocation, size_t bytes) {
    if (const auto* at = first_other(allocation.begin, std::min(bytes, allocation.bytes), RELEASED)) {
        complain(allocation, at, "use after free");
    }
}

// Guards of what is allocated; of released memory a glance takes in the beginnings of what was released last, as there may be much of it.
// The rest is looked at when it is given back to the system, and at the end of the process.
void check_all(bool glance) {
    constexpr size_t GLANCE_BYTES = 4096, GLANCE_ALLOCATIONS = 64;
    std::lock_guard lock(mutex());
    for (const auto& [begin, allocation] : table()) check(allocation);
    const size_t count = glance ? std::min(GLANCE_ALLOCATIONS, released().size()) : released().size();
    for (auto at = released().end() - static_cast<ptrdiff_t>(count); at != released().end(); ++at) {
        check_released(*at, glance ? GLANCE_BYTES : at->bytes);
    }
}

// Nothing must be thrown away silently because the process ends well otherwise.
__attribute__((destructor)) void check_at_exit() {
    if (sticky_error()) return;  // said before
    check_all(false);
    if (sticky_error()) _exit(70);
}
}  // namespace

void* allocate(size_t bytes, Context* context, Kind kind) {
    std::lock_guard lock(mutex());
    const size_t whole = (bytes + 2 * GUARD_BYTES + 4 * ALIGNMENT - 1) / (2 * ALIGNMENT) * (2 * ALIGNMENT);
    auto* memory = static_cast<unsigned char*>(aligned_alloc(2 * ALIGNMENT, whole));
    if (!memory) return nullptr;
    Allocation allocation = {memory, memory + GUARD_BYTES + ALIGNMENT, bytes, context, kind, ++allocations_ever, false};
    memset(allocation.begin - GUARD_BYTES, GUARD, GUARD_BYTES);
    memset(allocation.begin, NEW, bytes);
    memset(allocation.begin + bytes, GUARD, GUARD_BYTES);
    table()[reinterpret_cast<uintptr_t>(allocation.begin)] = allocation;
    return allocation.begin;
}

Range range_of(const void* begin, size_t bytes) {
    std::lock_guard lock(mutex());
    const auto at = reinterpret_cast<uintptr_t>(begin);
    auto next = table().upper_bound(at);
    if (next != table().begin()) {
        const Allocation& allocation = std::prev(next)->second;
        const uintptr_t first = std::prev(next)->first;
        if (at < first + allocation.bytes) {
            const bool inside = bytes <= first + allocation.bytes - at && !allocation.retired;
            return {inside ? allocation.kind : Kind::bad, allocation.context};
        }
    }
    return {Kind::pageable, nullptr};
}

Context* retire(void* begin, Kind kind) {
    std::lock_guard lock(mutex());
    auto found = table().find(reinterpret_cast<uintptr_t>(begin));
    if (found == table().end() || found->second.kind != kind || found->second.retired) return nullptr;
    found->second.retired = true;
    return found->second.context;
}

void release(void* begin) {
    std::lock_guard lock(mutex());
    auto found = table().find(reinterpret_cast<uintptr_t>(begin));
    Allocation allocation = found->second;
    table().erase(found);
    check(allocation);
    memset(allocation.begin, RELEASED, allocation.bytes);
    released().push_back(allocation);
    released_bytes += allocation.bytes;
    while (released_bytes > KEPT_BYTES) {
        const Allocation oldest = released().front();
        released().pop_front();
        check_released(oldest, oldest.bytes);
        released_bytes -= oldest.bytes;
        free(oldest.memory);
    }
}

void check_guards() {
    check_all(true);
}

uint64_t bytes_allocated(const Context* context) {
    std::lock_guard lock(mutex());
    uint64_t sum = 0;
    for (const auto& [begin, allocation] : table()) {
        if (allocation.kind == Kind::device && allocation.context == context) sum += allocation.bytes;
    }
    return sum;
}

uint64_t live_allocations() {
    std::lock_guard lock(mutex());
    return table().size();
}
}  // namespace fake

extern "C" __attribute__((visibility("default"))) uint64_t fakecuda_live_allocations() {
    return fake::live_allocations();
}
bool fakecuda_is_reachable(const void* begin, size_t bytes) {
    const fake::Kind kind = fake::range_of(begin, bytes).kind;
    return kind == fake::Kind::device || kind == fake::Kind::locked;
}
