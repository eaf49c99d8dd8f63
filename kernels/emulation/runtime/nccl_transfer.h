// Messages between ranks, piece by piece through queues of a bounded length.
#pragma once

#include <vector>

#include "nccl_comm.h"

namespace fakenccl {
// A message that a rank sends or receives. Those of one peer and direction go in their order, all others at the same time.
struct Transfer {
    bool sends;
    int peer;
    char* memory;  // only read from where it sends
    size_t bytes;
    // Sends and receives of a program, and data of collectives; not what ranks tell one another about them.
    bool counts = true;

    size_t done = 0;  // of the prefix and the bytes
    uint64_t announced = 0;

    size_t whole() const { return sizeof announced + bytes; }
};

// Runs until all messages are through. False if the communicator was stopped.
bool exchange(Comm& comm, Channel channel, std::vector<Transfer> transfers);
}  // namespace fakenccl
