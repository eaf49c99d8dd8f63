#include "nccl_comm.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include "nccl_cuda.h"

namespace fakenccl {
namespace {
constexpr int MULTI_RANK_VERSION = 23000;

std::mutex& mutex() {
    static auto* one = new std::mutex;
    return *one;
}
std::map<ncclComm_t, std::shared_ptr<Comm>>& comms() {
    static auto* all = new std::map<ncclComm_t, std::shared_ptr<Comm>>;
    return *all;
}

uint64_t hash(const char* text) {
    uint64_t sum = 5381;
    for (; *text; ++text) sum = sum * 33 + static_cast<unsigned char>(*text);
    return sum;
}

// Taken once a process, as NCCL does.
uint64_t host_hash() {
    static const uint64_t host = [] {
        char name[256] = "";
        const char* given = getenv("NCCL_HOSTID");
        if (given && *given) return hash(given);
        gethostname(name, sizeof name - 1);
        return hash(name);
    }();
    return host;
}

bool shares_devices() {
    const char* enabled = getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    return settings().version >= MULTI_RANK_VERSION && enabled && strcmp(enabled, "1") == 0;
}

// Two ranks that have one device, as a text, or nothing.
std::string duplicate(Segment& segment) {
    for (int i = 0; i < segment.ranks(); ++i) {
        for (int j = i + 1; j < segment.ranks(); ++j) {
            const Rank &a = segment.rank(i), &b = segment.rank(j);
            if (a.host != b.host || a.device != b.device) continue;
            return "Duplicate GPU detected : rank " + std::to_string(i) + " and rank " + std::to_string(j) + " both on CUDA device " +
                   std::to_string(a.device);
        }
    }
    return "";
}
}  // namespace

ncclResult_t Comm::async_error() {
    const int own = state;
    if (own != ncclSuccess || !segment) return static_cast<ncclResult_t>(own);
    return static_cast<ncclResult_t>(segment->error().load());
}

void Comm::fail(ncclResult_t result, const char* function, const std::string& why) {
    state = refuse(result, function, why);
}

bool Comm::wait_until(const std::function<bool()>& holds) {
    for (;;) {
        const uint32_t seen = segment->rank(rank).bell;
        if (holds()) return true;
        if (stopped()) return false;
        segment->wait(rank, seen);
    }
}

bool Comm::barrier() {
    const auto count = static_cast<uint64_t>(size);
    const uint64_t all = (segment->barrier().fetch_add(1) / count + 1) * count;
    segment->ring_all();
    return wait_until([&] { return segment->barrier() >= all; });
}

void Comm::attach(std::shared_ptr<Segment> opened) {
    knows_receiver.assign(static_cast<size_t>(size), false);
    knows_sender.assign(static_cast<size_t>(size), false);
    std::lock_guard lock(mutex_);
    segment = std::move(opened);
}

void Comm::abort() {
    std::unique_lock lock(mutex_);
    aborted = true;
    if (segment) segment->ring(rank);
    changed_.notify_all();
    changed_.wait(lock, [&] { return running_ == 0; });
}

uint64_t Comm::take_turn() {
    std::lock_guard lock(mutex_);
    return issued_++;
}
void Comm::wait_for_turn(uint64_t turn) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= turn || aborted; });
    ++running_;
}
void Comm::end_turn() {
    std::lock_guard lock(mutex_);
    ++done_;
    --running_;
    changed_.notify_all();
}
void Comm::drain() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= issued_ || aborted; });
}

std::shared_ptr<Comm> make_comm(const Name& name, int rank, int size, bool blocking) {
    auto comm = std::make_shared<Comm>();
    comm->context = current_context(&comm->device);
    if (!comm->context) return nullptr;
    comm->name = name;
    comm->rank = rank;
    comm->size = size;
    comm->blocking = blocking;
    std::lock_guard lock(mutex());
    comms()[comm->handle()] = comm;
    return comm;
}

void meet(Comm& comm) {
    constexpr const char* FUNCTION = "ncclCommInitRank";
    std::string why;
    if (comes_up(settings().out_of_memory)) return comm.fail(ncclUnhandledCudaError, FUNCTION, "Cuda failure 2 'out of memory'");
    auto segment = Segment::open(comm.name, comm.size, &why);
    if (!segment) return comm.fail(ncclSystemError, FUNCTION, why);
    comm.attach(segment);
    Rank& own = segment->rank(comm.rank);
    if (own.taken.exchange(1)) {
        return comm.fail(ncclInvalidUsage, FUNCTION, "there are two ranks " + std::to_string(comm.rank));
    }
    own.process = getpid();
    own.host = host_hash();
    own.device = comm.device;
    own.is_here = 1;
    segment->join();
    if (!comm.barrier()) return comm.fail(ncclInternalError, FUNCTION, "aborted while ranks were missing");
    const std::string twice = duplicate(*segment);
    if (!twice.empty() && !shares_devices()) return comm.fail(ncclInvalidUsage, FUNCTION, twice);
    comm.state = ncclSuccess;
}

void split(Comm& parent, int color, int key, Comm* child) {
    constexpr const char* FUNCTION = "ncclCommSplit";
    Segment& segment = *parent.segment;
    segment.rank(parent.rank).color = color;
    segment.rank(parent.rank).key = key;
    std::vector<std::pair<int, int>> members;  // key and rank
    bool all = parent.barrier();
    for (int i = 0; i < parent.size; ++i) {
        if (segment.rank(i).color == color) members.emplace_back(segment.rank(i).key, i);
    }
    // Nobody may go on to a next split before all have read.
    all = all && parent.barrier();
    const uint64_t number = ++parent.splits;
    if (!child) return;
    if (!all) return child->fail(ncclInternalError, FUNCTION, "aborted while ranks were missing");
    std::sort(members.begin(), members.end());
    const auto own = std::find(members.begin(), members.end(), std::make_pair(key, parent.rank));
    child->name = parent.name.child(number, color);
    child->rank = static_cast<int>(own - members.begin());
    child->size = static_cast<int>(members.size());
    meet(*child);
}

ncclResult_t finalize(const std::shared_ptr<Comm>& comm) {
    if (comm->blocking) {
        comm->drain();
        return ncclSuccess;
    }
    comm->state = ncclInProgress;
    std::thread([comm] {
        comm->drain();
        comm->state = ncclSuccess;
    }).detach();
    return ncclInProgress;
}

std::shared_ptr<Comm> comm_of(ncclComm_t handle) {
    std::lock_guard lock(mutex());
    auto found = comms().find(handle);
    return found == comms().end() ? nullptr : found->second;
}
void forget(ncclComm_t handle) {
    std::lock_guard lock(mutex());
    comms().erase(handle);
}

OnDevice::OnDevice(void* context) {
    cuCtxGetCurrent(&before_);
    cuCtxSetCurrent(context);
}
OnDevice::~OnDevice() {
    cuCtxSetCurrent(before_);
}

void* current_context(int* device) {
    void* context = nullptr;
    if (cuInit(0) != 0) return nullptr;
    cuCtxGetCurrent(&context);
    if (!context) {
        if (cuDevicePrimaryCtxRetain(&context, 0) != 0) return nullptr;
        cuCtxSetCurrent(context);
    }
    return cuCtxGetDevice(device) == 0 ? context : nullptr;
}
}  // namespace fakenccl
