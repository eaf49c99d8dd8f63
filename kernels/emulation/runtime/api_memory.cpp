// Allocation, copies and fills.
//
// Copies run when their turn in the stream comes, and read and write then. With pageable memory of the host they are as the
// driver documents them: what is read is staged before the call returns, and what is written is there when it returns.
#include <cstring>
#include <memory>
#include <vector>

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
    if (from == Kind::pageable) {
        const auto* first = static_cast<const char*>(src);
        auto staged = std::make_shared<std::vector<char>>(first, first + bytes);
        stream->submit([=] { memcpy(dst, staged->data(), bytes); });
    } else {
        stream->submit([=] { memmove(dst, src, bytes); });
    }
    if (to == Kind::pageable) stream->synchronize();
    return fake::SUCCESS;
}

// A copy without a stream: after all that the default stream waits for.
int copy_now(const char* function, void* dst, Side dst_side, const void* src, Side src_side, size_t bytes) {
    RETURN_IF_BROKEN;
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
    if (!fake::stream_of(handle)) return fake::unknown_stream(handle, __func__);
    return cuMemAlloc_v2(pointer, bytes);
}
DRIVER cuMemFree_v2(DevicePointer pointer) {
    RETURN_IF_BROKEN;
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
    if (!fake::retire(address(pointer), Kind::device)) {
        return fake::refuse(fake::INVALID_VALUE, __func__, "no allocation begins here");
    }
    stream->submit([pointer] { fake::release(address(pointer)); });
    return fake::SUCCESS;
}
DRIVER cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
    RETURN_IF_BROKEN;
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
    fake::Context* context = fake::current_context();
    if (!context) return fake::INVALID_CONTEXT;
    if (count == 0) return fake::SUCCESS;
    if (kind_on(Side::device, address(dst), count) == Kind::bad) return fake::INVALID_VALUE;
    fake::synchronize_context(context, true);
    memset(address(dst), value, count);
    return fake::SUCCESS;
}
