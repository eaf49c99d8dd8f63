// Groups of calls, one open group a thread at the most. A call outside of a group is a group by itself.
#pragma once

#include <functional>

#include "nccl_work.h"

namespace fakenccl {
// A communicator that the group makes: `meet` runs in a thread beside the others, after earlier ones that are split from the same parent.
struct NewComm {
    std::shared_ptr<Comm> comm;    // null for a rank that has no part in a split
    std::shared_ptr<Comm> parent;  // null unless it is split from one
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
void add(NewComm made);
}  // namespace fakenccl
