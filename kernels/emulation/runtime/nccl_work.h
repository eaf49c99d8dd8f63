// Work of a group on one communicator: sends, receives and collectives, as they run when their turn in the streams comes.
#pragma once

#include <memory>
#include <vector>

#include "nccl_comm.h"

namespace fakenccl {
enum class Kind { send, receive, all_gather, all_reduce, reduce_scatter, reduce, broadcast, all_to_all, gather, scatter };
const char* name_of(Kind kind);

// One call. `count` is of values, of the part of one rank where ranks have parts; `peer` is the root of a collective.
struct Op {
    Kind kind;
    const char* send;
    char* receive;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t reduction;
    int peer;

    bool is_message() const { return kind == Kind::send || kind == Kind::receive; }
};

// All calls of one communicator in a group.
struct Plan {
    std::shared_ptr<Comm> comm;
    std::vector<Op> ops;
    std::vector<void*> streams;  // each once
    bool stuck = false;          // a planted error: the work does not end before an abort

    // Whether there are peers that this rank has not met before: one for messages of this direction, or all for collectives.
    bool has_strangers() const;
    // Tells them that this rank is here.
    void announce();
    // Waits for them on the host. False after an abort.
    bool connect();
    // Puts the work into the streams: it begins when all of them have come to it, and all of them go on when it has ended.
    ncclResult_t submit() const;

private:
    bool is_with_strangers(const Op& op) const;
};
}  // namespace fakenccl
