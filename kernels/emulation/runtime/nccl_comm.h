// Communicators: how ranks meet, what state they are in, and in which order their work runs.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "nccl_segment.h"
#include "nccl_state.h"

namespace fakenccl {
// One rank's end of a communicator.
struct Comm {
    Name name = {};
    int rank = 0, size = 0, device = 0;
    void* context = nullptr;
    bool blocking = true;
    std::shared_ptr<Segment> segment;  // null until it was opened
    // In progress until it is ready; what failed, for good, is kept.
    std::atomic<int> state{ncclInProgress};
    std::atomic<bool> aborted{false}, finalized{false};
    uint64_t splits = 0;
    // Peers that messages have been sent to and received from; and whether there was a collective.
    std::vector<bool> knows_receiver, knows_sender;
    bool knows_all = false;

    ncclComm_t handle() { return reinterpret_cast<ncclComm_t>(this); }
    ncclResult_t async_error();
    // Fails for good, with a text.
    void fail(ncclResult_t result, const char* function, const std::string& why);
    // Whether work must end: after an abort, or an error that all ranks know of.
    bool stopped() { return aborted || segment->error() != ncclSuccess; }
    // Waits on the host until the condition holds. False after an abort.
    bool wait_until(const std::function<bool()>& holds);
    // Waits until all ranks have come here. False after an abort.
    bool barrier();
    void attach(std::shared_ptr<Segment> opened);
    // Ends what waits or runs, and waits until nothing runs. What still lies in streams will do nothing.
    void abort();

    // Order of work, which streams keep as it was issued: a number for each piece when it is issued, and the wait for its turn.
    uint64_t take_turn();
    void wait_for_turn(uint64_t turn);
    void end_turn();
    // Waits until all that was issued has run, or until an abort.
    void drain();

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    uint64_t issued_ = 0, done_ = 0, running_ = 0;
};

// A new communicator of the current device, or null if there is none. It is not ready before `meet`.
std::shared_ptr<Comm> make_comm(const Name& name, int rank, int size, bool blocking);
// Meets the other ranks. Sets the state.
void meet(Comm& comm);
// Gives the colour and the key to all ranks of the parent, and lets the child meet its ranks; null for a rank without a colour.
void split(Comm& parent, int color, int key, Comm* child);

// Waits for the work of a communicator; beside the caller if it is nonblocking.
ncclResult_t finalize(const std::shared_ptr<Comm>& comm);

// The communicator of a handle, or null: unknown handles are errors, not crashes.
std::shared_ptr<Comm> comm_of(ncclComm_t handle);
void forget(ncclComm_t handle);

// Makes the device of a communicator current for as long as this lives.
class OnDevice {
public:
    explicit OnDevice(void* context);
    ~OnDevice();
    OnDevice(const OnDevice&) = delete;

private:
    void* before_ = nullptr;
};
// The current context; that of the first device, as with CUDA's runtime, where the thread has none. Null without devices.
void* current_context(int* device);
}  // namespace fakenccl
