#include "nccl_work.h"

#include <algorithm>
#include <cstring>

#include "nccl_cuda.h"
#include "nccl_reduce.h"
#include "nccl_transfer.h"

namespace fakenccl {
namespace {
// How a rank calls a collective, compared with how others do.
struct Call {
    uint64_t count;
    int kind, type, reduction, root;

    bool operator==(const Call& other) const { return memcmp(this, &other, sizeof other) == 0; }
    std::string text() const {
        std::string all = std::string(name_of(static_cast<Kind>(kind))) + " of " + std::to_string(count) + " values of type " + std::to_string(type);
        if (reduction >= 0) all += ", reduction " + std::to_string(reduction);
        return root >= 0 ? all + ", root " + std::to_string(root) : all;
    }
};

bool has_root(Kind kind) {
    return kind == Kind::reduce || kind == Kind::broadcast || kind == Kind::gather || kind == Kind::scatter;
}
bool reduces(Kind kind) {
    return kind == Kind::all_reduce || kind == Kind::reduce_scatter || kind == Kind::reduce;
}

// Transfers with all other ranks. `out(i)` and `in(i)` are the memory for rank i, null where nothing goes.
template <class Out, class In>
bool with_others(Comm& comm, size_t bytes, Out out, In in, bool counts = true) {
    std::vector<Transfer> transfers;
    for (int i = 0; i < comm.size; ++i) {
        if (i == comm.rank) continue;
        if (const char* memory = out(i)) transfers.push_back({true, i, const_cast<char*>(memory), bytes, counts});
        if (char* memory = in(i)) transfers.push_back({false, i, memory, bytes, counts});
    }
    return exchange(comm, Channel::collectives, std::move(transfers));
}

// Whether all ranks make the same call. If not, the first of them to see it says so.
bool agrees(Comm& comm, const Op& op) {
    const int reduction = reduces(op.kind) ? op.reduction : -1, root = has_root(op.kind) ? op.peer : -1;
    const Call own = {op.count, static_cast<int>(op.kind), op.type, reduction, root};
    std::vector<Call> calls(static_cast<size_t>(comm.size), own);
    const auto out = [&](int) { return reinterpret_cast<const char*>(&own); };
    const auto in = [&](int i) { return reinterpret_cast<char*>(&calls[static_cast<size_t>(i)]); };
    if (!with_others(comm, sizeof own, out, in, false)) return false;
    for (int i = 1; i < comm.size; ++i) {
        if (calls[static_cast<size_t>(i)] == calls[0]) continue;
        comm.fail_all(name_of(op.kind), "ranks do not make the same call: rank 0 " + calls[0].text() + "; rank " + std::to_string(i) + " " +
                                            calls[static_cast<size_t>(i)].text());
        return false;
    }
    return true;
}

// Gets the parts of all ranks, this one's as it lies, and reduces them.
template <class Out>
void reduce_parts(Comm& comm, const Op& op, const char* own, Out out, bool receives) {
    const size_t bytes = op.count * size_of(op.type), ranks = receives ? static_cast<size_t>(comm.size) : 0;
    std::vector<char> room(ranks * bytes);
    std::vector<const char*> parts(ranks);
    for (size_t i = 0; i < ranks; ++i) parts[i] = room.data() + i * bytes;
    const auto in = [&](int i) { return receives ? room.data() + static_cast<size_t>(i) * bytes : nullptr; };
    if (!with_others(comm, bytes, out, in) || !receives) return;
    parts[static_cast<size_t>(comm.rank)] = own;
    // In place, a part is read before it is written.
    reduce(parts, op.receive, op.count, op.type, op.reduction);
}

void run_collective(Comm& comm, const Op& op) {
    if (!agrees(comm, op)) return;
    const size_t bytes = op.count * size_of(op.type);
    const bool is_root = comm.rank == op.peer;
    const auto block = [bytes](auto* memory, int i) { return memory + static_cast<size_t>(i) * bytes; };
    const auto whole = [&](int) { return op.send; };
    const auto out_block = [&](int i) { return block(op.send, i); };
    const auto in_block = [&](int i) { return block(op.receive, i); };
    const auto to_root = [&](int i) { return i == op.peer ? op.send : nullptr; };
    const auto nowhere = [](int) -> char* { return nullptr; };
    switch (op.kind) {
        case Kind::all_gather:
            memmove(block(op.receive, comm.rank), op.send, bytes);
            with_others(comm, bytes, whole, in_block);
            break;
        case Kind::all_to_all:
            memmove(block(op.receive, comm.rank), block(op.send, comm.rank), bytes);
            with_others(comm, bytes, out_block, in_block);
            break;
        case Kind::all_reduce: reduce_parts(comm, op, op.send, whole, true); break;
        case Kind::reduce_scatter: reduce_parts(comm, op, block(op.send, comm.rank), out_block, true); break;
        case Kind::reduce: reduce_parts(comm, op, op.send, to_root, is_root); break;
        case Kind::broadcast:
            if (is_root) {
                with_others(comm, bytes, whole, nowhere);
                memmove(op.receive, op.send, bytes);
            } else {
                with_others(comm, bytes, nowhere, [&](int i) { return i == op.peer ? op.receive : nullptr; });
            }
            break;
        case Kind::gather:
            if (is_root) {
                memmove(block(op.receive, comm.rank), op.send, bytes);
                with_others(comm, bytes, nowhere, in_block);
            } else {
                with_others(comm, bytes, to_root, nowhere);
            }
            break;
        case Kind::scatter:
            if (is_root) {
                with_others(comm, bytes, out_block, nowhere);
                memmove(op.receive, block(op.send, comm.rank), bytes);
            } else {
                with_others(comm, bytes, nowhere, [&](int i) { return i == op.peer ? op.receive : nullptr; });
            }
            break;
        default: break;
    }
}

// Collectives in their order, then all messages at once.
void run(Comm& comm, const std::vector<Op>& ops, bool stuck) {
    std::vector<Transfer> messages;
    if (stuck) comm.wait_until([] { return false; });
    for (const Op& op : ops) {
        if (comm.stopped()) return;
        const size_t bytes = op.count * size_of(op.type);
        if (op.kind == Kind::send) messages.push_back({true, op.peer, const_cast<char*>(op.send), bytes});
        else if (op.kind == Kind::receive) messages.push_back({false, op.peer, op.receive, bytes});
        else run_collective(comm, op);
    }
    if (!comm.stopped()) exchange(comm, Channel::messages, std::move(messages));
}

// Where streams of one plan meet. Counts up, as a graph may launch the work many times.
class Meeting {
public:
    void arrive() {
        std::lock_guard lock(mutex_);
        ++arrived_;
        changed_.notify_all();
    }
    void wait_for(uint64_t arrivals) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return arrived_ >= arrivals; });
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    uint64_t arrived_ = 0;
};
}  // namespace

const char* name_of(Kind kind) {
    constexpr const char* NAMES[] = {"ncclSend",      "ncclRecv",      "ncclAllGather", "ncclAllReduce", "ncclReduceScatter",
                                     "ncclReduce",    "ncclBroadcast", "ncclAlltoAll",  "ncclGather",    "ncclScatter"};
    return NAMES[static_cast<size_t>(kind)];
}

bool Plan::is_with_strangers(const Op& op) const {
    const auto peer = static_cast<size_t>(op.peer);
    if (!op.is_message()) return comm->size > 1 && !comm->knows_all;
    return op.peer != comm->rank && !(op.kind == Kind::send ? comm->knows_receiver : comm->knows_sender)[peer];
}

bool Plan::has_strangers() const {
    return std::any_of(ops.begin(), ops.end(), [this](const Op& op) { return is_with_strangers(op); });
}

void Plan::announce() {
    Segment& segment = *comm->segment;
    for (const Op& op : ops) {
        if (!is_with_strangers(op)) continue;
        if (op.kind == Kind::send) segment.fifo(Channel::messages, comm->rank, op.peer).sender_is_here = 1;
        else if (op.kind == Kind::receive) segment.fifo(Channel::messages, op.peer, comm->rank).receiver_is_here = 1;
        else segment.rank(comm->rank).collectives_are_here = 1;
        segment.ring_all();
    }
}

bool Plan::connect() {
    Segment& segment = *comm->segment;
    for (const Op& op : ops) {
        const auto peer = static_cast<size_t>(op.peer);
        const auto here = [&] {
            if (op.kind == Kind::send) return segment.fifo(Channel::messages, comm->rank, op.peer).receiver_is_here != 0;
            if (op.kind == Kind::receive) return segment.fifo(Channel::messages, op.peer, comm->rank).sender_is_here != 0;
            for (int i = 0; i < comm->size; ++i) {
                if (!segment.rank(i).collectives_are_here) return false;
            }
            return true;
        };
        if (!is_with_strangers(op)) continue;
        if (!comm->wait_until(here)) return false;
        if (op.kind == Kind::send) comm->knows_receiver[peer] = true;
        else if (op.kind == Kind::receive) comm->knows_sender[peer] = true;
        else comm->knows_all = true;
    }
    return true;
}

ncclResult_t Plan::submit() const {
    const OnDevice device(comm->context);
    auto before = std::make_shared<Meeting>(), after = std::make_shared<Meeting>();
    const size_t others = streams.size() - 1;
    bool submitted = true;
    for (size_t i = 1; i < streams.size() && submitted; ++i) {
        const auto turns = std::make_shared<uint64_t>(0);
        submitted = fakecuda_issue(streams[i], [=] {
            return [=, turn = ++*turns] {
                before->arrive();
                after->wait_for(turn);
            };
        }) == 0;
    }
    const auto turns = std::make_shared<uint64_t>(0);
    const auto issue = [=, comm = comm, ops = ops, stuck = stuck] {
        return [=, turn = ++*turns, number = comm->take_turn()] {
            before->wait_for(turn * others);
            comm->wait_for_turn(number);
            run(*comm, ops, stuck);
            comm->end_turn();
            after->arrive();
        };
    };
    submitted = submitted && fakecuda_issue(streams[0], issue) == 0;
    return submitted ? ncclSuccess : refuse(ncclUnhandledCudaError, "ncclGroupEnd", "the driver refuses work for a stream");
}
}  // namespace fakenccl
