// Streams: queues of work, each with a thread of its own. Events: marks in these queues.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "api.h"
#include "hook.h"

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
    static std::shared_ptr<Stream> open(Context* context, unsigned flags, int priority, bool is_default = false);

    Context* context() const { return context_; }
    unsigned flags() const { return flags_; }
    int priority() const { return priority_; }
    bool waits_for_others() const { return !(flags_ & 1) && !is_default_; }

    // Puts work at the end. Waits while the queue is full, as the driver does. Work of the default stream runs after all that was submitted to
    // the streams that wait for others, and before all that is submitted to them later.
    void submit(Work work);
    // The same for work that is made anew for each turn.
    void issue(const Issue& issue);
    // Whether nothing is queued and nothing runs.
    bool idle();
    // Waits for all that has been submitted so far.
    void synchronize();
    void close();

private:
    void push(Work work);
    void serve();

    Context* context_ = nullptr;
    unsigned flags_ = 0, number_ = 0;
    int priority_ = 0;
    bool is_default_ = false;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Work> queue_;
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

// The stream of a handle, or null: unknown handles are errors, not crashes. The default stream is that of the current context.
std::shared_ptr<Stream> stream_of(void* handle);
// The error of a call that names such a handle.
int unknown_stream(void* handle, const char* function);
// Waits for all streams of the context, or, if `blocking_only`, for the default stream and those that it waits for.
void synchronize_context(Context* context, bool blocking_only);
}  // namespace fake
