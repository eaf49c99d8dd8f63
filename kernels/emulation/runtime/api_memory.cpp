// Allocation, copies and fills.
//
// Copies run when their turn in the stream comes, and read and write then. With pageable memory of the host they are as the
// driver documents them: what is read is staged before the call returns, and what is written is there when it returns. Copies that are captured
// read and write when the graph runs.
#include <cstring>
#include <memory>
#include <vector>

#include "capture.h"
#include "memory.h"
#include "state.h"
#include "stream.h"

using fake::Kind;

namespace {
enum class Side { device, host, any };

char* address(DevicePointer pointer) {
    return reinterpret_cast<char*>(static_cast<uintptr_t>(pointer));
}

// Kind of the memory of a range, or `bad` if it may not be on this side.
Kind kind_on(Side side, const void* begin, size_t bytes) {
    const Kind kind = fake::range_of(begin, bytes).kind;
    const bool fits = side == Side::any || (side == Side::device) == (kind == Kind::device);
    return fits ? kind : Kind::bad;
}

int copy(const char* function, void* dst, Side dst_side, const void* src, Side src_side, size_t bytes, void* handle) {
    RETURN_IF_BROKEN;
    const auto stream = fake::stream_of(handle);
    if (!stream) return fake::unknown_stream(handle, function);
    if (bytes == 0) return fake::SUCCESS;
    const Kind to = kind_on(dst_side, dst, bytes), from = kind_on(src_side, src, bytes);
    if (to == Kind::bad) return fake::refuse(fake::INVALID_VALUE, function, "the destination is not in one live allocation");
    if (from == Kind::bad) return fake::refuse(fake::INVALID_VALUE, function, "the source is not in one live allocation");
    fake::settings().bytes_copied += bytes;
    const bool captured = stream->capture() != nullptr;
    if (from == Kind::pageable && !captured) {
        const auto* first = static_cast<const char*>(src);
        auto staged = std::make_shared<std::vector<char>>(first, first + bytes);
        stream->submit([=] { memcpy(dst, staged->data(), bytes); });
    } else {
        stream->submit([=] { memmove(dst, src, bytes); });
    }
    if (to == Kind::pageable && !captured) stream->synchronize();
    return fake::SUCCESS;
}

// A copy without a stream: after all that the default stream waits for.
int copy_now(const char* function, void* dst, Side dst_side, const void* src, Side src_side, size_t bytes) {
    RETURN_IF_BROKEN;
    if (const int refused = fake::refused_while_capturing(function)) return refused;
    fake::Context* context = fake::current_context();
    if (!context) return fake::INVALID_CONTEXT;
    if (bytes == 0) return fake::SUCCESS;
    if (kind_on(dst_side, dst, bytes) == Kind::bad || kind_on(src_side, src, bytes) == Kind::bad) {
        return fake::refuse(fake::INVALID_VALUE, function, "a range is not in one live allocation");
    }
    fake::synchronize_context(context, true);
    memmove(dst, src, bytes);
    fake::settings().bytes_copied += bytes;
    fake::check_guards();
    return fake::sticky_error();
}

template <class T>
int fill(const char* function, DevicePointer pointer, T value, size_t count, void* handle) {
    RETURN_IF_BROKEN;
    const auto stream = fake::stream_of(handle);
    if (!stream) return fake::unknown_stream(handle, function);
    if (count == 0) return fake::SUCCESS;
    if (pointer % sizeof(T) != 0 || kind_on(Side::device, address(pointer), count * sizeof(T)) == Kind::bad) {
        return fake::refuse(fake::INVALID_VALUE, function, "the range is not aligned or not in one live allocation");
    }
    auto* first = reinterpret_cast<T*>(address(pointer));
    stream->submit([=] {
        for (size_t i = 0; i < count; ++i) first[i] = value;
    });
    return fake::SUCCESS;
}

bool is_of(DevicePointer pointer, size_t bytes, void* context) {
    return bytes == 0 || fake::range_of(address(pointer), bytes).context == context;
}
}  // namespace

DRIVER cuMemAlloc_v2(DevicePointer* pointer, size_t bytes) {
    RETURN_IF_BROKEN;
    if (const int refused = fake::refused_while_capturing(__func__)) return refused;
    fake::Context* context = fake::current_context();
    if (!context) return fake::INVALID_CONTEXT;
    if (bytes == 0) return fake::INVALID_VALUE;
    if (fake::bytes_allocated(context) + bytes > fake::settings().memory) return fake::OUT_OF_MEMORY;
    const fake::Fault& fault = fake::settings().fault;
    if (fault.kind == fake::Fault::Kind::memory && bytes >= fault.bytes) return fake::OUT_OF_MEMORY;
    void* memory = fake::allocate(bytes, context, Kind::device);
    if (!memory) return fake::OUT_OF_MEMORY;
    *pointer = reinterpret_cast<uintptr_t>(memory);
    return fake::SUCCESS;
}
DRIVER cuMemAllocAsync(DevicePointer* pointer, size_t bytes, void* handle) {
    const auto stream = fake::stream_of(handle);
    if (!stream) return fake::unknown_stream(handle, __func__);
    if (stream->capture()) return fake::refuse(fake::NOT_SUPPORTED, __func__, "the fake has no allocations in graphs");
    return cuMemAlloc_v2(pointer, bytes);
}
DRIVER cuMemFree_v2(DevicePointer pointer) {
    RETURN_IF_BROKEN;
    if (const int refused = fake::refused_while_capturing(__func__)) return refused;
    if (pointer == 0) return fake::SUCCESS;
    fake::Context* context = fake::retire(address(pointer), Kind::device);
    if (!context) return fake::refuse(fake::INVALID_VALUE, __func__, "no allocation begins here");
    fake::synchronize_context(context, false);
    fake::release(address(pointer));
    return fake::sticky_error();
}
DRIVER cuMemFreeAsync(DevicePointer pointer, void* handle) {
    RETURN_IF_BROKEN;
    const auto stream = fake::stream_of(handle);
    if (!stream) return fake::unknown_stream(handle, __func__);
    if (pointer == 0) return fake::SUCCESS;
    if (stream->capture()) return fake::refuse(fake::NOT_SUPPORTED, __func__, "the fake has no allocations in graphs");
    if (!fake::retire(address(pointer), Kind::device)) {
        return fake::refuse(fake::INVALID_VALUE, __func__, "no allocation begins here");
    }
    stream->submit([pointer] { fake::release(address(pointer)); });
    return fake::SUCCESS;
}
DRIVER cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
    RETURN_IF_BROKEN;
    if (const int refused = fake::refused_while_capturing(__func__)) return refused;
    fake::Context* context = fake::current_context();
    if (!context) return fake::INVALID_CONTEXT;
    if (bytes == 0) return fake::INVALID_VALUE;
    *pointer = fake::allocate(bytes, context, Kind::locked);
    return *pointer ? fake::SUCCESS : fake::OUT_OF_MEMORY;
}
DRIVER cuMemAllocHost_v2(void** pointer, size_t bytes) {
    return cuMemHostAlloc(pointer, bytes, 0);
}
DRIVER cuMemFreeHost(void* pointer) {
    RETURN_IF_BROKEN;
    if (const int refused = fake::refused_while_capturing(__func__)) return refused;
    fake::Context* context = fake::retire(pointer, Kind::locked);
    if (!context) return fake::refuse(fake::INVALID_VALUE, __func__, "no allocation begins here");
    fake::synchronize_context(context, false);
    fake::release(pointer);
    return fake::sticky_error();
}
DRIVER cuMemHostGetDevicePointer_v2(DevicePointer* device, void* host, unsigned) {
    if (fake::range_of(host, 1).kind != Kind::locked) return fake::INVALID_VALUE;
    *device = reinterpret_cast<uintptr_t>(host);
    return fake::SUCCESS;
}
DRIVER cuMemGetInfo_v2(size_t* free, size_t* total) {
    RETURN_IF_BROKEN;
    fake::Context* context = fake::current_context();
    if (!context) return fake::INVALID_CONTEXT;
    const uint64_t used = fake::bytes_allocated(context);
    *total = fake::settings().memory;
    *free = *total > used ? *total - used : 0;
    return fake::SUCCESS;
}

DRIVER cuMemcpyHtoDAsync_v2(DevicePointer dst, const void* src, size_t bytes, void* stream) {
    return copy(__func__, address(dst), Side::device, src, Side::host, bytes, stream);
}
DRIVER cuMemcpyDtoHAsync_v2(void* dst, DevicePointer src, size_t bytes, void* stream) {
    return copy(__func__, dst, Side::host, address(src), Side::device, bytes, stream);
}
DRIVER cuMemcpyDtoDAsync_v2(DevicePointer dst, DevicePointer src, size_t bytes, void* stream) {
    return copy(__func__, address(dst), Side::device, address(src), Side::device, bytes, stream);
}
DRIVER cuMemcpyAsync(DevicePointer dst, DevicePointer src, size_t bytes, void* stream) {
    return copy(__func__, address(dst), Side::any, address(src), Side::any, bytes, stream);
}
DRIVER cuMemcpyPeerAsync(DevicePointer dst, void* dst_context, DevicePointer src, void* src_context, size_t bytes,
                         void* stream) {
    if (!is_of(dst, bytes, dst_context) || !is_of(src, bytes, src_context)) {
        return fake::refuse(fake::INVALID_VALUE, __func__, "memory is not of the context that is named");
    }
    return copy(__func__, address(dst), Side::device, address(src), Side::device, bytes, stream);
}
DRIVER cuMemcpyHtoD_v2(DevicePointer dst, const void* src, size_t bytes) {
    return copy_now(__func__, address(dst), Side::device, src, Side::host, bytes);
}
DRIVER cuMemcpyDtoH_v2(void* dst, DevicePointer src, size_t bytes) {
    return copy_now(__func__, dst, Side::host, address(src), Side::device, bytes);
}
DRIVER cuMemcpyDtoD_v2(DevicePointer dst, DevicePointer src, size_t bytes) {
    return copy_now(__func__, address(dst), Side::device, address(src), Side::device, bytes);
}
DRIVER cuMemcpy(DevicePointer dst, DevicePointer src, size_t bytes) {
    return copy_now(__func__, address(dst), Side::any, address(src), Side::any, bytes);
}

DRIVER cuMemsetD8Async(DevicePointer dst, unsigned char value, size_t count, void* stream) {
    return fill(__func__, dst, value, count, stream);
}
DRIVER cuMemsetD16Async(DevicePointer dst, unsigned short value, size_t count, void* stream) {
    return fill(__func__, dst, value, count, stream);
}
DRIVER cuMemsetD32Async(DevicePointer dst, unsigned value, size_t count, void* stream) {
    return fill(__func__, dst, value, count, stream);
}
DRIVER cuMemsetD8_v2(DevicePointer dst, unsigned char value, size_t count) {
    RETURN_IF_BROKEN;
    if (const int refused = fake::refused_while_capturing(__func__)) return refused;
    fake::Context* context = fake::current_context();
    if (!context) return fake::INVALID_CONTEXT;
    if (count == 0) return fake::SUCCESS;
    if (kind_on(Side::device, address(dst), count) == Kind::bad) return fake::INVALID_VALUE;
    fake::synchronize_context(context, true);
    memset(address(dst), value, count);
    return fake::SUCCESS;
}

namespace {
// What the driver says of a pointer. Of others than these attributes, the fake knows nothing.
int attribute_of(void* value, int attribute, DevicePointer pointer) {
    enum Attribute { CONTEXT = 1, MEMORY_TYPE = 2, DEVICE_POINTER = 3, HOST_POINTER = 4, IS_MANAGED = 8, DEVICE_ORDINAL = 9, RANGE_START = 11, RANGE_SIZE = 12 };
    enum Type : unsigned { HOST = 1, DEVICE = 2 };
    const fake::Range range = fake::range_of(address(pointer), 1);
    if (range.kind != Kind::device && range.kind != Kind::locked) return fake::INVALID_VALUE;
    const bool is_device = range.kind == Kind::device;
    switch (attribute) {
        case CONTEXT: *static_cast<void**>(value) = range.context; break;
        case MEMORY_TYPE: *static_cast<unsigned*>(value) = is_device ? DEVICE : HOST; break;
        case DEVICE_POINTER: *static_cast<DevicePointer*>(value) = pointer; break;
        case HOST_POINTER:
            if (is_device) return fake::INVALID_VALUE;
            *static_cast<void**>(value) = address(pointer);
            break;
        case IS_MANAGED: *static_cast<unsigned*>(value) = 0; break;
        case DEVICE_ORDINAL: *static_cast<int*>(value) = range.context->device; break;
        case RANGE_START: *static_cast<DevicePointer*>(value) = range.begin; break;
        case RANGE_SIZE: *static_cast<size_t*>(value) = range.bytes; break;
        default: return fake::refuse(fake::NOT_SUPPORTED, "cuPointerGetAttribute", "the fake does not know this attribute");
    }
    return fake::SUCCESS;
}
}  // namespace

DRIVER cuPointerGetAttribute(void* value, int attribute, DevicePointer pointer) {
    RETURN_IF_BROKEN;
    return value ? attribute_of(value, attribute, pointer) : fake::INVALID_VALUE;
}
// Of memory that is not the driver's, all of them are zero, as the driver has it.
DRIVER cuPointerGetAttributes(unsigned count, int* attributes, void** values, DevicePointer pointer) {
    RETURN_IF_BROKEN;
    constexpr int MEMORY_TYPE = 2, IS_MANAGED = 8, DEVICE_ORDINAL = 9;
    for (unsigned i = 0; i < count; ++i) {
        const bool is_int = attributes[i] == MEMORY_TYPE || attributes[i] == IS_MANAGED || attributes[i] == DEVICE_ORDINAL;
        const int error = attribute_of(values[i], attributes[i], pointer);
        if (error == fake::NOT_SUPPORTED) return error;
        if (error != fake::SUCCESS) memset(values[i], 0, is_int ? sizeof(int) : sizeof(void*));
    }
    return fake::SUCCESS;
}
DRIVER cuMemGetAddressRange_v2(DevicePointer* begin, size_t* bytes, DevicePointer pointer) {
    RETURN_IF_BROKEN;
    const fake::Range range = fake::range_of(address(pointer), 1);
    if (range.kind != Kind::device && range.kind != Kind::locked) return fake::NOT_FOUND;
    if (begin) *begin = range.begin;
    if (bytes) *bytes = range.bytes;
    return fake::SUCCESS;
}
