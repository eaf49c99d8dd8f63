// Capture of streams: what they are given is kept, as a graph, and runs when that is launched.
#pragma once

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "api.h"
#include "hook.h"

namespace fake {
class Capture;
class Mark;
class Stream;

// How careful threads are while a stream is captured.
enum class CaptureMode : int { global = 0, thread = 1, relaxed = 2 };

// Work of one of the captured streams, its lane.
struct Node {
    size_t lane;
    Issue issue;
};

// An event that was recorded in a captured stream: with whose capture, what of each lane is before it, and its mark in the launch that is
// being prepared.
struct CapturedEvent {
    std::weak_ptr<Capture> capture;
    std::vector<size_t> before;
    std::shared_ptr<std::shared_ptr<Mark>> mark;
};

class Capture : public std::enable_shared_from_this<Capture> {
public:
    explicit Capture(CaptureMode mode);

    // Adds a stream, and makes it keep its work here. The first one is where the capture began.
    void join(const std::shared_ptr<Stream>& stream);
    void keep(size_t lane, Issue issue);
    CapturedEvent record(size_t lane);
    void wait(size_t lane, const CapturedEvent& event);
    // From now on it can only be ended, in vain.
    void invalidate();
    bool is_valid();
    // Whether all lanes have come together in the first one.
    bool is_joined();
    // Lets all streams run their work again. Returns what was kept.
    std::vector<Node> end();

    uint64_t id() const { return id_; }
    CaptureMode mode() const { return mode_; }
    bool is_of_this_thread() const { return thread_ == std::this_thread::get_id(); }
    bool uses(const Context* context);

private:
    const CaptureMode mode_;
    const std::thread::id thread_ = std::this_thread::get_id();
    const uint64_t id_;
    std::mutex mutex_;
    bool valid_ = true;
    std::vector<std::weak_ptr<Stream>> streams_;
    std::vector<Context*> contexts_;
    std::vector<Node> nodes_;
    // For each lane, how much of each lane is before its end; of its own, how much there is.
    std::vector<std::vector<size_t>> before_;
};

// The error of a call that must not be made while the thread, or any thread, captures, after it has spoilt the captures that forbid it. 0 if
// the call is allowed.
int refused_while_capturing(const char* function);
// The same for calls that wait for a whole context.
int refused_while_capturing(const char* function, const Context* context);
}  // namespace fake
