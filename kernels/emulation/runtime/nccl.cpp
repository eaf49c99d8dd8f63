// NCCL's functions. Every `nccl` name is weak and has a strong twin `pnccl`, so that a library between a program and this one can define the
// first and call the second.
#include <cstring>

#include "nccl_cuda.h"
#include "nccl_group.h"
#include "nccl_reduce.h"

using namespace fakenccl;

#if defined(__GNUC__) && !defined(__clang__)
// The compiler sees that a twin does not throw, and wants its weak name to promise so.
#pragma GCC diagnostic ignored "-Wmissing-attributes"
#endif

#define EXPORTED extern "C" __attribute__((visibility("default")))
// Declares both names; the body that follows is that of the strong one.
#define API(type, name, parameters)                                                                       \
    EXPORTED type p##name parameters;                                                                     \
    EXPORTED type name parameters __attribute__((weak, alias("p" #name)));                                \
    type p##name parameters

#define CHECK(expression)                                             \
    do {                                                              \
        if (const ncclResult_t wrong = (expression)) return wrong;    \
    } while (false)

namespace {
constexpr int COLLECTIVES_VERSION = 22800;

bool is_error(ncclResult_t result) {
    return result != ncclSuccess && result != ncclInProgress;
}

// Runs the body of a function unless a fault is planted. An error spoils the group that is open.
template <class Body>
ncclResult_t call(const char* function, Body body) {
    const ncclResult_t result = is_planted(function) ? refuse(ncclSystemError, function, "a planted error") : body();
    if (is_in_group() && is_error(result)) spoil_group(result);
    return result;
}

ncclResult_t argument(bool fits, const char* function, const std::string& why) {
    return fits ? ncclSuccess : refuse(ncclInvalidArgument, function, why);
}

// The communicator of a handle, if it can be used now.
ncclResult_t use(ncclComm_t handle, const char* function, std::shared_ptr<Comm>* comm) {
    *comm = comm_of(handle);
    CHECK(argument(*comm != nullptr, function, "unknown communicator"));
    const ncclResult_t state = (*comm)->async_error();
    if (state == ncclInProgress) return refuse(ncclInvalidUsage, function, "the communicator is used before an earlier call has ended");
    return state == ncclSuccess ? ncclSuccess : refuse(state, function, "the communicator has failed before");
}

// A call outside of a group is a group by itself.
template <class Body>
ncclResult_t grouped(const char* function, Body body) {
    begin_group();
    const ncclResult_t result = body();
    if (is_error(result)) spoil_group(result);
    const ncclResult_t ended = end_group(function);
    return is_error(result) ? result : ended;
}

ncclResult_t read_config(const char* function, const ncclConfig_t* config, bool* blocking) {
    if (!config) return ncclSuccess;
    const bool whole = config->magic == NCCL_API_MAGIC && config->size >= offsetof(ncclConfig_t, blocking) + sizeof config->blocking;
    CHECK(argument(whole, function, "the configuration was not initialised"));
    const int given = config->blocking;
    if (given == NCCL_CONFIG_UNDEF_INT) return ncclSuccess;
    *blocking = given != 0;
    return argument(given == 0 || given == 1, function, "blocking is " + std::to_string(given));
}

ncclResult_t init(const char* function, ncclComm_t* out, int size, const ncclUniqueId& id, int rank, const ncclConfig_t* config) {
    Name name;
    bool blocking = true;
    CHECK(argument(out != nullptr, function, "nowhere to put the communicator"));
    *out = nullptr;
    const bool is_rank = size > 0 && size <= MOST_RANKS && rank >= 0 && rank < size;
    CHECK(argument(is_rank, function, "rank " + std::to_string(rank) + " of " + std::to_string(size)));
    CHECK(argument(Name::read(id, &name), function, "this is no unique id"));
    CHECK(read_config(function, config, &blocking));
    const auto comm = make_comm(name, rank, size, blocking);
    if (!comm) return refuse(ncclUnhandledCudaError, function, "Cuda failure 100 'no CUDA-capable device is detected'");
    *out = comm->handle();
    return grouped(function, [&] {
        add({comm, nullptr, out, [comm] { meet(*comm); }});
        return ncclSuccess;
    });
}

ncclResult_t enqueue(Op op, ncclComm_t handle, cudaStream_t stream) {
    const char* function = name_of(op.kind);
    std::shared_ptr<Comm> comm;
    CHECK(use(handle, function, &comm));
    if (comm->finalized) return refuse(ncclInvalidUsage, function, "the communicator was finalized");
    const size_t value = size_of(op.type), ranks = static_cast<size_t>(comm->size);
    CHECK(argument(value != 0, function, "unknown type " + std::to_string(op.type)));
    CHECK(argument(op.peer >= 0 && op.peer < comm->size, function, "there is no rank " + std::to_string(op.peer)));
    const bool reduces = op.kind == Kind::all_reduce || op.kind == Kind::reduce_scatter || op.kind == Kind::reduce;
    if (reduces) {
        CHECK(argument(op.reduction >= ncclSum && op.reduction < ncclNumOps, function, "unknown reduction " + std::to_string(op.reduction)));
        CHECK(argument(is_reduced(op.type), function, "the fake does not reduce values of 8 bits of floating point"));
    }
    if (op.count == 0 && !op.is_message()) return ncclSuccess;
    const bool is_root = comm->rank == op.peer, blocks = op.kind == Kind::all_to_all;
    const bool sends = op.kind != Kind::receive && (is_root || (op.kind != Kind::broadcast && op.kind != Kind::scatter));
    const bool receives = op.kind != Kind::send && (is_root || (op.kind != Kind::reduce && op.kind != Kind::gather));
    const bool all_out = blocks || op.kind == Kind::reduce_scatter || op.kind == Kind::scatter;
    const bool all_in = blocks || op.kind == Kind::all_gather || op.kind == Kind::gather;
    const size_t bytes = op.count * value;
    const auto fits = [&](const void* memory, bool all) { return bytes == 0 || fakecuda_is_reachable(memory, all ? bytes * ranks : bytes); };
    CHECK(argument(!sends || fits(op.send, all_out), function, "the send buffer is not in one live allocation of a device"));
    CHECK(argument(!receives || fits(op.receive, all_in), function, "the receive buffer is not in one live allocation of a device"));
    return grouped(function, [&] {
        add(comm, op, stream);
        return ncclSuccess;
    });
}

ncclResult_t enqueue_new(const Op& op, ncclComm_t comm, cudaStream_t stream) {
    if (settings().version < COLLECTIVES_VERSION) return refuse(ncclInvalidUsage, name_of(op.kind), "not in this version");
    return enqueue(op, comm, stream);
}

const char* in(const void* memory) {
    return static_cast<const char*>(memory);
}
char* out(void* memory) {
    return static_cast<char*>(memory);
}
}  // namespace

API(ncclResult_t, ncclGetVersion, (int* version)) {
    return call("ncclGetVersion", [&] {
        CHECK(argument(version != nullptr, "ncclGetVersion", "nowhere to put the version"));
        *version = settings().version;
        return ncclSuccess;
    });
}
API(ncclResult_t, ncclGetUniqueId, (ncclUniqueId* id)) {
    return call("ncclGetUniqueId", [&] {
        CHECK(argument(id != nullptr, "ncclGetUniqueId", "nowhere to put the id"));
        Segment::remove_leftovers();
        *id = Name::fresh().id();
        return ncclSuccess;
    });
}
API(const char*, ncclGetErrorString, (ncclResult_t result)) {
    switch (result) {
        case ncclSuccess: return "no error";
        case ncclUnhandledCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
        case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
        case ncclInternalError: return "internal error - please report this issue to the NCCL developers";
        case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
        case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
        case ncclRemoteError: return "remote process exited or there was a network error";
        case ncclInProgress: return "NCCL operation in progress";
        case ncclTimeout: return "timeout";
        default: return "unknown result code";
    }
}
API(const char*, ncclGetLastError, (ncclComm_t)) {
    return last_error();
}

API(ncclResult_t, ncclCommInitRank, (ncclComm_t* comm, int size, ncclUniqueId id, int rank)) {
    return call("ncclCommInitRank", [&] { return init("ncclCommInitRank", comm, size, id, rank, nullptr); });
}
API(ncclResult_t, ncclCommInitRankConfig, (ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config)) {
    return call("ncclCommInitRankConfig", [&] { return init("ncclCommInitRankConfig", comm, size, id, rank, config); });
}
API(ncclResult_t, ncclCommInitRankScalable, (ncclComm_t* comm, int size, int rank, int ids, ncclUniqueId* id, ncclConfig_t* config)) {
    return call("ncclCommInitRankScalable", [&] {
        CHECK(argument(ids > 0 && ids <= size && id, "ncclCommInitRankScalable", std::to_string(ids) + " unique ids"));
        return init("ncclCommInitRankScalable", comm, size, *id, rank, config);
    });
}
API(ncclResult_t, ncclCommInitAll, (ncclComm_t* comms, int count, const int* devices)) {
    return call("ncclCommInitAll", [&] {
        CHECK(argument(comms && count > 0, "ncclCommInitAll", std::to_string(count) + " communicators"));
        const ncclUniqueId id = Name::fresh().id();
        return grouped("ncclCommInitAll", [&]() -> ncclResult_t {
            for (int i = 0; i < count; ++i) {
                void* context = nullptr;
                if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, devices ? devices[i] : i)) {
                    return refuse(ncclUnhandledCudaError, "ncclCommInitAll", "Cuda failure 101 'invalid device ordinal'");
                }
                const OnDevice device(context);
                CHECK(init("ncclCommInitAll", &comms[i], count, id, i, nullptr));
            }
            return ncclSuccess;
        });
    });
}
API(ncclResult_t, ncclCommSplit, (ncclComm_t handle, int color, int key, ncclComm_t* out, ncclConfig_t* config)) {
    constexpr const char* NAME = "ncclCommSplit";
    return call(NAME, [&] {
        std::shared_ptr<Comm> parent, child;
        CHECK(use(handle, NAME, &parent));
        CHECK(argument(out && color >= NCCL_SPLIT_NOCOLOR, NAME, "color " + std::to_string(color)));
        *out = nullptr;
        bool blocking = parent->blocking;
        CHECK(read_config(NAME, config, &blocking));
        if (color != NCCL_SPLIT_NOCOLOR) {
            const OnDevice device(parent->context);
            child = make_comm({}, 0, 0, blocking);
            *out = child->handle();
        }
        return grouped(NAME, [&] {
            add({child, parent, out, [=] {
                     split(*parent, color, key, child.get());
                     parent->state = ncclSuccess;
                 }});
            return ncclSuccess;
        });
    });
}

API(ncclResult_t, ncclCommCount, (const ncclComm_t handle, int* count)) {
    return call("ncclCommCount", [&] {
        std::shared_ptr<Comm> comm;
        CHECK(use(handle, "ncclCommCount", &comm));
        *count = comm->size;
        return ncclSuccess;
    });
}
API(ncclResult_t, ncclCommUserRank, (const ncclComm_t handle, int* rank)) {
    return call("ncclCommUserRank", [&] {
        std::shared_ptr<Comm> comm;
        CHECK(use(handle, "ncclCommUserRank", &comm));
        *rank = comm->rank;
        return ncclSuccess;
    });
}
API(ncclResult_t, ncclCommCuDevice, (const ncclComm_t handle, int* device)) {
    return call("ncclCommCuDevice", [&] {
        std::shared_ptr<Comm> comm;
        CHECK(use(handle, "ncclCommCuDevice", &comm));
        *device = comm->device;
        return ncclSuccess;
    });
}
API(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t handle, ncclResult_t* error)) {
    return call("ncclCommGetAsyncError", [&] {
        const auto comm = comm_of(handle);
        CHECK(argument(comm && error, "ncclCommGetAsyncError", "unknown communicator"));
        *error = comm->async_error();
        return ncclSuccess;
    });
}
API(ncclResult_t, ncclCommFinalize, (ncclComm_t handle)) {
    return call("ncclCommFinalize", [&] {
        std::shared_ptr<Comm> comm;
        if (!handle) return ncclSuccess;
        CHECK(use(handle, "ncclCommFinalize", &comm));
        if (comm->finalized.exchange(true)) return refuse(ncclInvalidUsage, "ncclCommFinalize", "the communicator was finalized before");
        return finalize(comm);
    });
}
API(ncclResult_t, ncclCommDestroy, (ncclComm_t handle)) {
    return call("ncclCommDestroy", [&] {
        std::shared_ptr<Comm> comm;
        if (!handle) return ncclSuccess;
        CHECK(use(handle, "ncclCommDestroy", &comm));
        comm->drain();
        forget(handle);
        return ncclSuccess;
    });
}
API(ncclResult_t, ncclCommAbort, (ncclComm_t handle)) {
    return call("ncclCommAbort", [&] {
        if (!handle) return ncclSuccess;
        const auto comm = comm_of(handle);
        CHECK(argument(comm != nullptr, "ncclCommAbort", "unknown communicator"));
        comm->abort();
        forget(handle);
        return ncclSuccess;
    });
}

API(ncclResult_t, ncclGroupStart, ()) {
    return call("ncclGroupStart", [] {
        begin_group();
        return ncclSuccess;
    });
}
API(ncclResult_t, ncclGroupEnd, ()) {
    if (is_planted("ncclGroupEnd")) spoil_group(refuse(ncclSystemError, "ncclGroupEnd", "a planted error"));
    return end_group("ncclGroupEnd");
}

API(ncclResult_t, ncclSend, (const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)) {
    return call("ncclSend", [&] { return enqueue({Kind::send, in(send), nullptr, count, type, ncclSum, peer}, comm, stream); });
}
API(ncclResult_t, ncclRecv, (void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)) {
    return call("ncclRecv", [&] { return enqueue({Kind::receive, nullptr, out(receive), count, type, ncclSum, peer}, comm, stream); });
}
API(ncclResult_t, ncclAllGather, (const void* send, void* receive, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)) {
    return call("ncclAllGather", [&] { return enqueue({Kind::all_gather, in(send), out(receive), count, type, ncclSum, 0}, comm, stream); });
}
API(ncclResult_t, ncclAllReduce,
    (const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream)) {
    return call("ncclAllReduce", [&] { return enqueue({Kind::all_reduce, in(send), out(receive), count, type, reduction, 0}, comm, stream); });
}
API(ncclResult_t, ncclReduceScatter,
    (const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream)) {
    return call("ncclReduceScatter", [&] { return enqueue({Kind::reduce_scatter, in(send), out(receive), count, type, reduction, 0}, comm, stream); });
}
API(ncclResult_t, ncclReduce,
    (const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t reduction, int root, ncclComm_t comm, cudaStream_t stream)) {
    return call("ncclReduce", [&] { return enqueue({Kind::reduce, in(send), out(receive), count, type, reduction, root}, comm, stream); });
}
API(ncclResult_t, ncclBroadcast,
    (const void* send, void* receive, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)) {
    return call("ncclBroadcast", [&] { return enqueue({Kind::broadcast, in(send), out(receive), count, type, ncclSum, root}, comm, stream); });
}
API(ncclResult_t, ncclBcast, (void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)) {
    return call("ncclBcast", [&] { return enqueue({Kind::broadcast, in(buffer), out(buffer), count, type, ncclSum, root}, comm, stream); });
}
API(ncclResult_t, ncclAlltoAll, (const void* send, void* receive, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)) {
    return call("ncclAlltoAll", [&] { return enqueue_new({Kind::all_to_all, in(send), out(receive), count, type, ncclSum, 0}, comm, stream); });
}
API(ncclResult_t, ncclGather,
    (const void* send, void* receive, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)) {
    return call("ncclGather", [&] { return enqueue_new({Kind::gather, in(send), out(receive), count, type, ncclSum, root}, comm, stream); });
}
API(ncclResult_t, ncclScatter,
    (const void* send, void* receive, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)) {
    return call("ncclScatter", [&] { return enqueue_new({Kind::scatter, in(send), out(receive), count, type, ncclSum, root}, comm, stream); });
}

API(ncclResult_t, ncclMemAlloc, (void** memory, size_t bytes)) {
    return call("ncclMemAlloc", [&] {
        int device = 0;
        DevicePointer pointer = 0;
        CHECK(argument(memory != nullptr, "ncclMemAlloc", "nowhere to put the address"));
        const bool made = current_context(&device) && !comes_up(settings().out_of_memory) && cuMemAlloc_v2(&pointer, bytes) == 0;
        if (!made) return refuse(ncclUnhandledCudaError, "ncclMemAlloc", "Cuda failure 2 'out of memory'");
        *memory = reinterpret_cast<void*>(static_cast<uintptr_t>(pointer));
        return ncclSuccess;
    });
}
API(ncclResult_t, ncclMemFree, (void* memory)) {
    return call("ncclMemFree", [&] {
        const bool freed = cuMemFree_v2(reinterpret_cast<uintptr_t>(memory)) == 0;
        return freed ? ncclSuccess : refuse(ncclUnhandledCudaError, "ncclMemFree", "Cuda failure 1 'invalid argument'");
    });
}
