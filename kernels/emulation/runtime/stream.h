// Streams: queues of work, each with a thread of its own. Events: marks in these queues.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "api.h"

namespace fake {
// A place in a queue that work has passed or not.
class Mark {
public:
    void pass();
    bool passed();
    void wait();
    // When it was passed.
    std::chrono::steady_clock::time_point time();

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool passed_ = false;
    std::chrono::steady_clock::time_point time_;
};

class Stream {
public:
    // A stream is kept by its thread until it has been closed and is empty.
    static std::shared_ptr<Stream> open(Context* context, unsigned flags, int priority);

    Context* context() const { return context_; }
    unsigned flags() const { return flags_; }
    int priority() const { return priority_; }
    bool waits_for_others() const { return !(flags_ & 1); }

    // Puts work at the end. Waits while the queue is full, as the driver does.
    void submit(std::function<void()> work);
    // Whether nothing is queued and nothing runs.
    bool idle();
    // Waits for all that has been submitted so far.
    void synchronize();
    void close();

private:
    void serve();

    Context* context_ = nullptr;
    unsigned flags_ = 0, number_ = 0;
    int priority_ = 0;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> queue_;
    uint64_t submitted_ = 0, completed_ = 0;
    bool closed_ = false;
};

struct Event {
    Context* context;
    unsigned flags;
    std::mutex mutex;
    std::shared_ptr<Mark> mark;  // null until it is recorded

    std::shared_ptr<Mark> last() {
        std::lock_guard lock(mutex);
        return mark;
    }
};

// The stream of a handle, or null: unknown handles are errors, not crashes.
std::shared_ptr<Stream> stream_of(void* handle);
// The error of a call that names such a handle.
int unknown_stream(void* handle, const char* function);
// Waits for all streams of the context, or, if `blocking_only`, for those that the default stream waits for.
void synchronize_context(const Context* context, bool blocking_only);
}  // namespace fake
