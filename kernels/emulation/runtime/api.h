// The part of the driver's interface that is faked: its types, and the errors that it returns.
#pragma once

#include <cstddef>
#include <cstdint>

using DevicePointer = unsigned long long;

namespace fake {
enum Error : int {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    NO_BINARY_FOR_GPU = 209,
    INVALID_HANDLE = 400,
    ILLEGAL_STATE = 401,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_OUT_OF_RESOURCES = 701,
    PEER_ACCESS_ALREADY_ENABLED = 704,
    NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_MERGE = 902,
    CAPTURE_UNMATCHED = 903,
    CAPTURE_UNJOINED = 904,
    CAPTURE_ISOLATION = 905,
    CAPTURED_EVENT = 907,
    CAPTURE_WRONG_THREAD = 908,
};

constexpr int MOST_DEVICES = 16;

// The primary context of a device. There are no others.
struct Context {
    int device;
};

// The device's context, or null if there is no such device.
Context* context_of(int device);
// The calling thread's.
Context* current_context();
}  // namespace fake

#define DRIVER extern "C" __attribute__((visibility("default"))) int
