// Groups of calls, one open group a thread at the most. A call outside of a group is a group by itself.
#pragma once

#include <functional>

#include "nccl_work.h"

namespace fakenccl {
// A communicator that the group makes: `meet` runs in a thread beside the others, after earlier ones of the same parent.
struct Birth {
    std::shared_ptr<Comm> comm, parent;  // null: the rank has no child in a split, or there is no parent
    ncclComm_t* out;
    std::function<void()> meet;
};

void begin_group();
ncclResult_t end_group(const char* function);
// Whether the thread has an open group.
bool is_in_group();
// The group will fail with this result, and do nothing.
void spoil_group(ncclResult_t result);
void add(const std::shared_ptr<Comm>& comm, const Op& op, void* stream);
void add(Birth birth);
}  // namespace fakenccl
