// Settings of tests, planted faults, and errors with their texts.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "nccl_types.h"

namespace fakenccl {
struct Settings {
    // Of ncclGetVersion, such as 23007.
    std::atomic<int> version;
    // Which group from now on is the last one before an asynchronous error, which received message has a wrong byte, and which
    // allocation fails: 1 is the next, 0 none.
    std::atomic<uint64_t> async_fail, corrupt, out_of_memory;
    // How long calls that do not block wait at most for the communicator that they make.
    const uint64_t linger_ms;
    // Messages and their bytes that came whole.
    std::atomic<uint64_t> messages{0}, bytes{0}, groups{0};

    Settings();
};
Settings& settings();

// Counts down; whether this is the one that was asked for.
bool comes_up(std::atomic<uint64_t>& countdown);
// Plants faults: `ncclSend:3,ncclRecv:1` fails the third send and the first receive from now on.
void plant(const char* text);
// Whether this call of the function is to fail.
bool is_planted(const char* function);

// Complains on stderr, keeps the text for ncclGetLastError, and returns the result.
ncclResult_t refuse(ncclResult_t result, const char* function, const std::string& why);
const char* last_error();
}  // namespace fakenccl
