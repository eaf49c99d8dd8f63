// Settings and counters of tests, and the sticky error.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "api.h"

namespace fake {
// A fault that the environment plants: `FAKECUDA_FAULT=KIND:WHERE`.
struct Fault {
    enum class Kind {
        none,
        hang,    // launches of a kernel never end
        skip,    // launches of a kernel do nothing
        stick,   // a launch of a kernel breaks the device for good
        memory,  // there is no memory for allocations of so many bytes and more
    };
    Kind kind = Kind::none;
    std::string kernel;
    uint64_t bytes = 0;

    bool is(Kind asked, const char* name) const { return kind == asked && kernel == name; }
};

struct Settings {
    std::atomic<uint64_t> seed, drop_wait, memory;
    std::atomic<unsigned> delay_us, workers, devices, deadline_ms;
    const Fault fault;
    std::atomic<uint64_t> launches{0}, waits{0}, bytes_copied{0};

    Settings();
};
Settings& settings();

// The error that all calls return once something is broken beyond repair, as on a device.
int sticky_error();
void stick(int error);

// Complains on stderr and returns the error: a test that expects none then shows why there is one.
int refuse(int error, const char* function, const char* why);
}  // namespace fake

#define RETURN_IF_BROKEN                                            \
    do {                                                            \
        if (const int broken = fake::sticky_error()) return broken; \
    } while (false)
