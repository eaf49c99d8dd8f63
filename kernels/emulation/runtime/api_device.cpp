// Devices and contexts. What they say of themselves is what an H200 says, so that code which asks takes its usual way.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <vector>

#include "memory.h"
#include "state.h"

namespace fake {
namespace {
thread_local Context* current = nullptr;
// Contexts of the thread that were current when others were put on top of them.
thread_local std::vector<Context*> covered;
struct Contexts {
    Context of[MOST_DEVICES];

    Contexts() {
        for (int i = 0; i < MOST_DEVICES; ++i) of[i].device = i;
    }
};
std::atomic<bool> initialised{false};

int devices() {
    const unsigned asked = settings().devices;
    return asked < MOST_DEVICES ? static_cast<int>(asked) : MOST_DEVICES;
}
bool exists(int device) {
    return device >= 0 && device < devices();
}

struct Attribute {
    int number, value;
};
constexpr Attribute ATTRIBUTES[] = {
    {1, 1024},        // threads per block
    {2, 1024},        // block, x
    {3, 1024},        // block, y
    {4, 64},          // block, z
    {5, 2147483647},  // grid, x
    {6, 65535},       // grid, y
    {7, 65535},       // grid, z
    {8, 49152},       // shared memory per block
    {9, 65536},       // constant memory
    {10, 32},         // warp
    {11, 2147483647}, // pitch
    {12, 65536},      // registers per block
    {13, 1980000},    // clock, kHz
    {15, 1},          // copies overlap kernels
    {16, 132},        // multiprocessors
    {19, 1},          // maps host memory
    {31, 1},          // concurrent kernels
    {36, 3201000},    // memory clock, kHz
    {37, 6144},       // memory bus, bits
    {38, 62914560},   // second cache, bytes
    {39, 2048},       // threads per multiprocessor
    {40, 3},          // copy engines
    {41, 1},          // unified addresses
    {75, 9},          // compute capability
    {76, 0},
    {78, 1},          // priorities of streams
    {81, 233472},     // shared memory per multiprocessor
    {82, 65536},      // registers per multiprocessor
    {97, 232448},     // shared memory per block, where asked for
    {106, 32},        // blocks per multiprocessor
    {111, 1024},      // reserved shared memory per block
    {115, 1},         // memory pools
};
}  // namespace

Context* context_of(int device) {
    static Contexts contexts;
    return exists(device) ? &contexts.of[device] : nullptr;
}
Context* current_context() {
    return current;
}
}  // namespace fake

using namespace fake;

namespace {
struct Name {
    int error;
    const char *name, *text;
};
constexpr Name NAMES[] = {
    {SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {PEER_ACCESS_ALREADY_ENABLED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate capture sequences"},
    {CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began"},
    {CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"},
    {CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"},
    {CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "attempt to terminate a thread-local capture sequence from another thread"},
};
const Name* name_of(int error) {
    for (const Name& name : NAMES) {
        if (name.error == error) return &name;
    }
    return nullptr;
}
}  // namespace

DRIVER cuGetErrorName(int error, const char** text) {
    const Name* name = name_of(error);
    *text = name ? name->name : nullptr;
    return name ? SUCCESS : INVALID_VALUE;
}
DRIVER cuGetErrorString(int error, const char** text) {
    const Name* name = name_of(error);
    *text = name ? name->text : nullptr;
    return name ? SUCCESS : INVALID_VALUE;
}

DRIVER cuInit(unsigned flags) {
    if (flags) return INVALID_VALUE;
    initialised = true;
    return devices() > 0 ? SUCCESS : NO_DEVICE;
}
DRIVER cuDriverGetVersion(int* version) {
    *version = 13000;
    return SUCCESS;
}
DRIVER cuDeviceGetCount(int* count) {
    *count = devices();
    return initialised ? SUCCESS : NOT_INITIALIZED;
}
DRIVER cuDeviceGet(int* device, int ordinal) {
    if (!initialised) return NOT_INITIALIZED;
    if (!exists(ordinal)) return INVALID_DEVICE;
    *device = ordinal;
    return SUCCESS;
}
DRIVER cuDeviceGetName(char* name, int capacity, int device) {
    if (!exists(device)) return INVALID_DEVICE;
    snprintf(name, static_cast<size_t>(capacity), "emulated device %d", device);
    return SUCCESS;
}
DRIVER cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
    if (!exists(device)) return INVALID_DEVICE;
    memset(uuid, 0, 16);
    memcpy(uuid, "emulated", 8);
    uuid[15] = static_cast<unsigned char>(device);
    return SUCCESS;
}
DRIVER cuDeviceGetUuid(unsigned char* uuid, int device) {
    return cuDeviceGetUuid_v2(uuid, device);
}
DRIVER cuDeviceTotalMem_v2(size_t* bytes, int device) {
    if (!exists(device)) return INVALID_DEVICE;
    *bytes = settings().memory;
    return SUCCESS;
}
DRIVER cuDeviceGetAttribute(int* value, int attribute, int device) {
    if (!exists(device)) return INVALID_DEVICE;
    *value = attribute == 33 ? device + 1 : 0;
    for (const Attribute& known : ATTRIBUTES) {
        if (known.number == attribute) *value = known.value;
    }
    return SUCCESS;
}
DRIVER cuDeviceGetPCIBusId(char* text, int capacity, int device) {
    if (!exists(device)) return INVALID_DEVICE;
    snprintf(text, static_cast<size_t>(capacity), "0000:%02x:00.0", device + 1);
    return SUCCESS;
}
DRIVER cuDeviceCanAccessPeer(int* can, int device, int peer) {
    if (!exists(device) || !exists(peer)) return INVALID_DEVICE;
    *can = device != peer;
    return SUCCESS;
}

DRIVER cuDevicePrimaryCtxRetain(void** context, int device) {
    RETURN_IF_BROKEN;
    if (!initialised) return NOT_INITIALIZED;
    *context = context_of(device);
    return *context ? SUCCESS : INVALID_DEVICE;
}
DRIVER cuDevicePrimaryCtxRelease_v2(int device) {
    return exists(device) ? SUCCESS : INVALID_DEVICE;
}
DRIVER cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
    *flags = 0;
    *active = 1;
    return exists(device) ? SUCCESS : INVALID_DEVICE;
}
DRIVER cuDevicePrimaryCtxSetFlags_v2(int device, unsigned) {
    return exists(device) ? SUCCESS : INVALID_DEVICE;
}
DRIVER cuCtxSetCurrent(void* context) {
    RETURN_IF_BROKEN;
    current = static_cast<Context*>(context);
    return SUCCESS;
}
DRIVER cuCtxPushCurrent_v2(void* context) {
    RETURN_IF_BROKEN;
    if (!context) return INVALID_VALUE;
    covered.push_back(current);
    current = static_cast<Context*>(context);
    return SUCCESS;
}
DRIVER cuCtxPopCurrent_v2(void** context) {
    RETURN_IF_BROKEN;
    if (!current) return INVALID_CONTEXT;
    if (context) *context = current;
    current = covered.empty() ? nullptr : covered.back();
    if (!covered.empty()) covered.pop_back();
    return SUCCESS;
}
DRIVER cuCtxGetCurrent(void** context) {
    *context = current;
    return SUCCESS;
}
DRIVER cuCtxGetDevice(int* device) {
    if (!current) return INVALID_CONTEXT;
    *device = current->device;
    return SUCCESS;
}
DRIVER cuCtxSetFlags(unsigned) {
    return current ? SUCCESS : INVALID_CONTEXT;
}
DRIVER cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    if (!current) return INVALID_CONTEXT;
    *least = 0;
    *greatest = -5;
    return SUCCESS;
}
DRIVER cuCtxEnablePeerAccess(void* peer, unsigned) {
    RETURN_IF_BROKEN;
    if (!current) return INVALID_CONTEXT;
    return peer && peer != current ? SUCCESS : INVALID_DEVICE;
}
DRIVER cuCtxDisablePeerAccess(void*) {
    return current ? SUCCESS : INVALID_CONTEXT;
}
// NVRTC calls this without looking whether it is there.
DRIVER cuGetExportTable(const void** table, const void*) {
    *table = nullptr;
    return NOT_FOUND;
}
