#include "stream.h"

#include <unistd.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "memory.h"
#include "state.h"

namespace fake {
namespace {
constexpr size_t LONGEST_QUEUE = 1024;

std::mutex& mutex() {
    static auto* one = new std::mutex;
    return *one;
}
std::map<void*, std::shared_ptr<Stream>>& streams() {
    static auto* all = new std::map<void*, std::shared_ptr<Stream>>;
    return *all;
}
std::map<void*, std::shared_ptr<Event>>& events() {
    static auto* all = new std::map<void*, std::shared_ptr<Event>>;
    return *all;
}

// Handles of the legacy default stream, and of that of a thread, which the fake does not have.
constexpr uintptr_t NULL_STREAM = 0, LEGACY_STREAM = 1, THREAD_STREAM = 2;

// Streams of a context that were created, or those of them that wait for the default stream.
std::vector<std::shared_ptr<Stream>> streams_of(const Context* context, bool blocking_only) {
    std::vector<std::shared_ptr<Stream>> all;
    std::lock_guard lock(mutex());
    for (const auto& [handle, stream] : streams()) {
        if (stream->context() == context && (!blocking_only || stream->waits_for_others())) all.push_back(stream);
    }
    return all;
}

std::shared_ptr<Stream> default_stream(Context* context) {
    static auto* all = new std::map<Context*, std::shared_ptr<Stream>>;
    std::lock_guard lock(mutex());
    std::shared_ptr<Stream>& stream = (*all)[context];
    if (!stream) stream = Stream::open(context, 0, 0, true);
    return stream;
}

std::shared_ptr<Event> event_of(void* handle) {
    std::lock_guard lock(mutex());
    auto found = events().find(handle);
    return found == events().end() ? nullptr : found->second;
}

// Half of the time nothing, or else up to the longest delay: a mix of fast and slow finds more than one speed.
void delay(uint64_t& random) {
    const unsigned most = settings().delay_us;
    if (most == 0) return;
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    if (random & 1) usleep(static_cast<unsigned>(random >> 8) % (most + 1));
}
}  // namespace

void Mark::pass() {
    std::lock_guard lock(mutex_);
    passed_ = true;
    time_ = std::chrono::steady_clock::now();
    changed_.notify_all();
}
bool Mark::passed() {
    std::lock_guard lock(mutex_);
    return passed_;
}
void Mark::wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return passed_; });
}
std::chrono::steady_clock::time_point Mark::time() {
    std::lock_guard lock(mutex_);
    return time_;
}

std::shared_ptr<Stream> Stream::open(Context* context, unsigned flags, int priority, bool is_default) {
    static std::atomic<unsigned> opened{0};
    auto stream = std::make_shared<Stream>();
    stream->context_ = context;
    stream->flags_ = flags;
    stream->priority_ = priority;
    stream->is_default_ = is_default;
    stream->number_ = ++opened;
    std::thread([stream] { stream->serve(); }).detach();
    return stream;
}

void Stream::submit(Work work) {
    if (!is_default_) return push(std::move(work));
    const auto others = streams_of(context_, true);
    for (const auto& other : others) {
        auto mark = std::make_shared<Mark>();
        other->push([mark] { mark->pass(); });
        push([mark] { mark->wait(); });
    }
    push(std::move(work));
    auto done = std::make_shared<Mark>();
    push([done] { done->pass(); });
    for (const auto& other : others) other->push([done] { done->wait(); });
}

void Stream::issue(const Issue& issue) {
    submit(issue());
}

void Stream::push(Work work) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.size() < LONGEST_QUEUE; });
    queue_.push_back(std::move(work));
    ++submitted_;
    changed_.notify_all();
}

bool Stream::idle() {
    std::lock_guard lock(mutex_);
    return completed_ == submitted_;
}

void Stream::synchronize() {
    std::unique_lock lock(mutex_);
    const uint64_t all = submitted_;
    changed_.wait(lock, [this, all] { return completed_ >= all; });
}

void Stream::close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
}

void Stream::serve() {
    uint64_t seed = 0, random = 0;
    for (;;) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return closed_ || !queue_.empty(); });
        if (queue_.empty()) return;
        Work work = std::move(queue_.front());
        queue_.pop_front();
        changed_.notify_all();
        lock.unlock();
        if (const uint64_t now = settings().seed; now != seed || random == 0) {
            seed = now;
            random = ((seed + number_) * 0x9e3779b97f4a7c15) | 1;
        }
        delay(random);
        work();
        work = nullptr;  // what it holds is freed before it counts as done
        lock.lock();
        ++completed_;
        changed_.notify_all();
    }
}

std::shared_ptr<Stream> stream_of(void* handle) {
    const auto number = reinterpret_cast<uintptr_t>(handle);
    if (number == NULL_STREAM || number == LEGACY_STREAM) {
        Context* context = current_context();
        return context ? default_stream(context) : nullptr;
    }
    std::lock_guard lock(mutex());
    auto found = streams().find(handle);
    return found == streams().end() ? nullptr : found->second;
}

int unknown_stream(void* handle, const char* function) {
    const auto number = reinterpret_cast<uintptr_t>(handle);
    if (number == THREAD_STREAM) return refuse(NOT_SUPPORTED, function, "there is no default stream of a thread");
    if (number == NULL_STREAM || number == LEGACY_STREAM) return INVALID_CONTEXT;
    return refuse(INVALID_HANDLE, function, "unknown stream");
}

void synchronize_context(Context* context, bool blocking_only) {
    for (const auto& stream : streams_of(context, blocking_only)) stream->synchronize();
    default_stream(context)->synchronize();
}
}  // namespace fake

using fake::settings;

#define STREAM(name, handle)                  \
    RETURN_IF_BROKEN;                         \
    const auto name = fake::stream_of(handle); \
    if (!name) return fake::unknown_stream(handle, __func__)
#define EVENT(name, handle)                   \
    RETURN_IF_BROKEN;                         \
    const auto name = fake::event_of(handle); \
    if (!name) return fake::refuse(fake::INVALID_HANDLE, __func__, "unknown event")

DRIVER cuStreamCreateWithPriority(void** handle, unsigned flags, int priority) {
    RETURN_IF_BROKEN;
    fake::Context* context = fake::current_context();
    if (!context) return fake::INVALID_CONTEXT;
    if (flags > 1) return fake::INVALID_VALUE;
    auto stream = fake::Stream::open(context, flags, priority);
    *handle = stream.get();
    std::lock_guard lock(fake::mutex());
    fake::streams()[*handle] = std::move(stream);
    return fake::SUCCESS;
}
DRIVER cuStreamCreate(void** handle, unsigned flags) {
    return cuStreamCreateWithPriority(handle, flags, 0);
}
// What is queued still runs.
DRIVER cuStreamDestroy_v2(void* handle) {
    STREAM(stream, handle);
    if (reinterpret_cast<uintptr_t>(handle) <= fake::THREAD_STREAM) return fake::INVALID_HANDLE;
    stream->close();
    std::lock_guard lock(fake::mutex());
    fake::streams().erase(handle);
    return fake::SUCCESS;
}
DRIVER cuStreamSynchronize(void* handle) {
    STREAM(stream, handle);
    stream->synchronize();
    fake::check_guards();
    return fake::sticky_error();
}
DRIVER cuStreamQuery(void* handle) {
    STREAM(stream, handle);
    return stream->idle() ? fake::SUCCESS : fake::NOT_READY;
}
DRIVER cuStreamIsCapturing(void* handle, int* status) {
    STREAM(stream, handle);
    *status = 0;
    return fake::SUCCESS;
}
DRIVER cuStreamGetFlags(void* handle, unsigned* flags) {
    STREAM(stream, handle);
    *flags = stream->flags();
    return fake::SUCCESS;
}
DRIVER cuStreamGetPriority(void* handle, int* priority) {
    STREAM(stream, handle);
    *priority = stream->priority();
    return fake::SUCCESS;
}
DRIVER cuStreamGetCtx(void* handle, void** context) {
    STREAM(stream, handle);
    *context = stream->context();
    return fake::SUCCESS;
}
DRIVER cuStreamWaitEvent(void* handle, void* event_handle, unsigned) {
    STREAM(stream, handle);
    EVENT(event, event_handle);
    ++settings().waits;
    // A planted fault: see whether anybody notices.
    uint64_t left = settings().drop_wait;
    while (left && !settings().drop_wait.compare_exchange_weak(left, left - 1)) {
    }
    if (left == 1) return fake::SUCCESS;
    // An event that was never recorded has nothing to wait for.
    if (const auto mark = event->last()) stream->submit([mark] { mark->wait(); });
    return fake::SUCCESS;
}
DRIVER cuStreamWaitValue32_v2(void* handle, DevicePointer pointer, unsigned value, unsigned flags) {
    STREAM(stream, handle);
    auto* word = reinterpret_cast<std::atomic<unsigned>*>(static_cast<uintptr_t>(pointer));
    const fake::Kind kind = fake::range_of(word, sizeof *word).kind;
    if (pointer % sizeof *word != 0 || (kind != fake::Kind::device && kind != fake::Kind::locked)) {
        return fake::refuse(fake::INVALID_VALUE, __func__, "the word is not aligned or not in one live allocation");
    }
    constexpr unsigned EQUAL = 1;
    if (flags != EQUAL) return fake::refuse(fake::NOT_SUPPORTED, __func__, "only waits for an equal value");
    stream->submit([word, value] {
        while (word->load() != value) usleep(100);
    });
    return fake::SUCCESS;
}
DRIVER cuLaunchHostFunc(void* handle, void (*function)(void*), void* argument) {
    STREAM(stream, handle);
    stream->submit([function, argument] { function(argument); });
    return fake::SUCCESS;
}

DRIVER cuEventCreate(void** handle, unsigned flags) {
    RETURN_IF_BROKEN;
    fake::Context* context = fake::current_context();
    if (!context) return fake::INVALID_CONTEXT;
    auto event = std::make_shared<fake::Event>();
    event->context = context;
    event->flags = flags;
    *handle = event.get();
    std::lock_guard lock(fake::mutex());
    fake::events()[*handle] = std::move(event);
    return fake::SUCCESS;
}
DRIVER cuEventDestroy_v2(void* handle) {
    EVENT(event, handle);
    std::lock_guard lock(fake::mutex());
    fake::events().erase(handle);
    return fake::SUCCESS;
}
DRIVER cuEventRecord(void* handle, void* stream_handle) {
    EVENT(event, handle);
    STREAM(stream, stream_handle);
    if (event->context != stream->context()) {
        return fake::refuse(fake::INVALID_HANDLE, __func__, "event and stream are of different contexts");
    }
    auto mark = std::make_shared<fake::Mark>();
    {
        std::lock_guard lock(event->mutex);
        event->mark = mark;
    }
    stream->submit([mark] { mark->pass(); });
    return fake::SUCCESS;
}
DRIVER cuEventRecordWithFlags(void* handle, void* stream, unsigned) {
    return cuEventRecord(handle, stream);
}
DRIVER cuEventSynchronize(void* handle) {
    EVENT(event, handle);
    if (const auto mark = event->last()) mark->wait();
    fake::check_guards();
    return fake::sticky_error();
}
DRIVER cuEventQuery(void* handle) {
    EVENT(event, handle);
    const auto mark = event->last();
    return !mark || mark->passed() ? fake::SUCCESS : fake::NOT_READY;
}
DRIVER cuEventElapsedTime_v2(float* milliseconds, void* begin_handle, void* end_handle) {
    EVENT(begin, begin_handle);
    EVENT(end, end_handle);
    constexpr unsigned NO_TIMING = 2;
    const auto from = begin->last(), to = end->last();
    if ((begin->flags | end->flags) & NO_TIMING || !from || !to) return fake::INVALID_HANDLE;
    if (!from->passed() || !to->passed()) return fake::NOT_READY;
    *milliseconds = std::chrono::duration<float, std::milli>(to->time() - from->time()).count();
    return fake::SUCCESS;
}
DRIVER cuEventElapsedTime(float* milliseconds, void* begin, void* end) {
    return cuEventElapsedTime_v2(milliseconds, begin, end);
}
DRIVER cuCtxSynchronize() {
    RETURN_IF_BROKEN;
    fake::Context* context = fake::current_context();
    if (!context) return fake::INVALID_CONTEXT;
    fake::synchronize_context(context, false);
    fake::check_guards();
    return fake::sticky_error();
}

int fakecuda_issue(void* handle, const fake::Issue& issue) {
    STREAM(stream, handle);
    stream->issue(issue);
    return fake::SUCCESS;
}
