// Entry points of the fake driver for the other fake libraries, beside CUDA's own interface.
#pragma once

#include <cstddef>
#include <functional>

namespace fake {
using Work = std::function<void()>;
// Makes the work of one turn: called whenever it is put into a queue, so once at a submission, and at each launch of a graph that has captured it.
using Issue = std::function<Work()>;
}  // namespace fake

extern "C" {
// Puts work at the end of a stream, also of the legacy default stream (null). Returns an error of the driver.
__attribute__((visibility("default"))) int fakecuda_issue(void* stream, const fake::Issue& issue);
// Whether a range is in one live allocation that a device can reach.
__attribute__((visibility("default"))) bool fakecuda_is_reachable(const void* begin, size_t bytes);
}
