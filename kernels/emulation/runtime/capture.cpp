#include "capture.h"

#include <algorithm>
#include <atomic>
#include <set>

#include "state.h"
#include "stream.h"

namespace fake {
namespace {
thread_local CaptureMode thread_mode = CaptureMode::global;

std::mutex& mutex() {
    static auto* one = new std::mutex;
    return *one;
}
// Captures that have not ended.
std::set<std::shared_ptr<Capture>>& captures() {
    static auto* all = new std::set<std::shared_ptr<Capture>>;
    return *all;
}

// Spoils those that `forbid`. Whether there are any.
template <class Forbids>
int refused(const char* function, Forbids forbids) {
    bool any = false;
    std::lock_guard lock(mutex());
    for (const auto& capture : captures()) {
        if (!forbids(*capture)) continue;
        capture->invalidate();
        any = true;
    }
    return any ? refuse(CAPTURE_UNSUPPORTED, function, "not while a stream is captured") : SUCCESS;
}

struct Graph {
    std::vector<Node> nodes;
    Context* context;
};

// A graph that can be launched. Each lane has a stream of its own.
struct Executable {
    std::vector<Node> nodes;
    std::vector<std::shared_ptr<Stream>> lanes;

    explicit Executable(const Graph& graph) : nodes(graph.nodes) {
        for (const Node& node : nodes) {
            while (lanes.size() <= node.lane) lanes.push_back(Stream::open(graph.context, 1, 0));
        }
    }
    ~Executable() {
        for (const auto& lane : lanes) lane->close();
    }
};

std::set<void*>& graphs() {
    static auto* all = new std::set<void*>;
    return *all;
}
std::set<std::shared_ptr<Executable>>& executables() {
    static auto* all = new std::set<std::shared_ptr<Executable>>;
    return *all;
}
std::shared_ptr<Executable> executable_of(void* handle) {
    std::lock_guard lock(mutex());
    for (const auto& one : executables()) {
        if (one.get() == handle) return one;
    }
    return nullptr;
}

uint64_t next_id() {
    static std::atomic<uint64_t> last{0};
    return ++last;
}
}  // namespace

Capture::Capture(CaptureMode mode) : mode_(mode), id_(next_id()) {}

void Capture::join(const std::shared_ptr<Stream>& stream) {
    std::lock_guard lock(mutex_);
    stream->keep_in(shared_from_this(), streams_.size());
    streams_.push_back(stream);
    contexts_.push_back(stream->context());
    before_.emplace_back();
    for (auto& before : before_) before.resize(streams_.size());
}
void Capture::keep(size_t lane, Issue issue) {
    std::lock_guard lock(mutex_);
    nodes_.push_back({lane, std::move(issue)});
    ++before_[lane][lane];
}
CapturedEvent Capture::record(size_t lane) {
    auto mark = std::make_shared<std::shared_ptr<Mark>>();
    keep(lane, [mark] {
        *mark = std::make_shared<Mark>();
        return [mark = *mark] { mark->pass(); };
    });
    std::lock_guard lock(mutex_);
    return {weak_from_this(), before_[lane], mark};
}
void Capture::wait(size_t lane, const CapturedEvent& event) {
    keep(lane, [mark = event.mark] { return [mark = *mark] { mark->wait(); }; });
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < event.before.size(); ++i) before_[lane][i] = std::max(before_[lane][i], event.before[i]);
}
void Capture::invalidate() {
    std::lock_guard lock(mutex_);
    valid_ = false;
}
bool Capture::is_valid() {
    std::lock_guard lock(mutex_);
    return valid_;
}
bool Capture::is_joined() {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < before_.size(); ++i) {
        if (before_[0][i] != before_[i][i]) return false;
    }
    return true;
}
bool Capture::uses(const Context* context) {
    std::lock_guard lock(mutex_);
    return std::find(contexts_.begin(), contexts_.end(), context) != contexts_.end();
}
std::vector<Node> Capture::end() {
    {
        std::lock_guard lock(fake::mutex());
        captures().erase(shared_from_this());
    }
    std::lock_guard lock(mutex_);
    for (const auto& weak : streams_) {
        if (const auto stream = weak.lock()) stream->keep_in(nullptr, 0);
    }
    return nodes_;
}

int refused_while_capturing(const char* function) {
    if (thread_mode == CaptureMode::relaxed) return SUCCESS;
    return refused(function, [](const Capture& capture) {
        if (capture.is_of_this_thread()) return capture.mode() != CaptureMode::relaxed;
        return capture.mode() == CaptureMode::global && thread_mode == CaptureMode::global;
    });
}
int refused_while_capturing(const char* function, const Context* context) {
    return refused(function, [context](Capture& capture) { return capture.uses(context); });
}
}  // namespace fake

using namespace fake;

DRIVER cuStreamBeginCapture_v2(void* handle, int mode) {
    RETURN_IF_BROKEN;
    const auto stream = stream_of(handle);
    if (!stream) return unknown_stream(handle, __func__);
    if (mode < 0 || mode > 2) return INVALID_VALUE;
    if (stream->is_default()) return refuse(CAPTURE_UNSUPPORTED, __func__, "the default stream cannot be captured");
    if (stream->capture()) return refuse(ILLEGAL_STATE, __func__, "the stream is captured already");
    const auto capture = std::make_shared<Capture>(static_cast<CaptureMode>(mode));
    capture->join(stream);
    std::lock_guard lock(fake::mutex());
    captures().insert(capture);
    return SUCCESS;
}
DRIVER cuStreamEndCapture(void* handle, void** graph) {
    RETURN_IF_BROKEN;
    const auto stream = stream_of(handle);
    if (!stream) return unknown_stream(handle, __func__);
    *graph = nullptr;
    const auto capture = stream->capture();
    if (!capture) return refuse(ILLEGAL_STATE, __func__, "the stream is not captured");
    if (stream->lane() != 0) return refuse(CAPTURE_UNMATCHED, __func__, "the capture began in another stream");
    if (capture->mode() != CaptureMode::relaxed && !capture->is_of_this_thread()) {
        return refuse(CAPTURE_WRONG_THREAD, __func__, "the capture began in another thread");
    }
    const bool joined = capture->is_joined();
    std::vector<Node> nodes = capture->end();
    if (!capture->is_valid()) return refuse(CAPTURE_INVALIDATED, __func__, "an earlier call has spoilt the capture");
    if (!joined) return refuse(CAPTURE_UNJOINED, __func__, "a stream was not joined to where the capture began");
    *graph = new Graph{std::move(nodes), stream->context()};
    std::lock_guard lock(fake::mutex());
    graphs().insert(*graph);
    return SUCCESS;
}
DRIVER cuStreamIsCapturing(void* handle, int* status) {
    RETURN_IF_BROKEN;
    const auto stream = stream_of(handle);
    if (!stream) return unknown_stream(handle, __func__);
    constexpr int NONE = 0, ACTIVE = 1, INVALIDATED = 2;
    const auto capture = stream->capture();
    *status = !capture ? NONE : capture->is_valid() ? ACTIVE : INVALIDATED;
    return SUCCESS;
}
// As the driver's first version has it. Graphs that are being captured have no handles, and their nodes never have.
DRIVER cuStreamGetCaptureInfo(void* handle, int* status, uint64_t* id) {
    if (const int error = cuStreamIsCapturing(handle, status)) return error;
    const auto capture = stream_of(handle)->capture();
    if (id && capture) *id = capture->id();
    return SUCCESS;
}
DRIVER cuStreamGetCaptureInfo_v2(void* handle, int* status, uint64_t* id, void** graph, const void** nodes, size_t* count) {
    if (graph) *graph = nullptr;
    if (nodes) *nodes = nullptr;
    if (count) *count = 0;
    return cuStreamGetCaptureInfo(handle, status, id);
}
DRIVER cuStreamGetCaptureInfo_v3(void* handle, int* status, uint64_t* id, void** graph, const void** nodes, const void** edges, size_t* count) {
    if (edges) *edges = nullptr;
    return cuStreamGetCaptureInfo_v2(handle, status, id, graph, nodes, count);
}
DRIVER cuThreadExchangeStreamCaptureMode(int* mode) {
    if (*mode < 0 || *mode > 2) return INVALID_VALUE;
    const auto before = static_cast<int>(thread_mode);
    thread_mode = static_cast<CaptureMode>(*mode);
    *mode = before;
    return SUCCESS;
}

DRIVER cuGraphInstantiateWithFlags(void** executable, void* graph, uint64_t) {
    RETURN_IF_BROKEN;
    std::lock_guard lock(fake::mutex());
    if (graphs().count(graph) == 0) return refuse(INVALID_VALUE, __func__, "unknown graph");
    auto made = std::make_shared<Executable>(*static_cast<Graph*>(graph));
    *executable = made.get();
    executables().insert(std::move(made));
    return SUCCESS;
}
DRIVER cuGraphDestroy(void* graph) {
    std::lock_guard lock(fake::mutex());
    if (graphs().erase(graph) == 0) return refuse(INVALID_VALUE, __func__, "unknown graph");
    delete static_cast<Graph*>(graph);
    return SUCCESS;
}
DRIVER cuGraphUpload(void* handle, void*) {
    return executable_of(handle) ? SUCCESS : refuse(INVALID_VALUE, __func__, "unknown graph");
}
DRIVER cuGraphLaunch(void* handle, void* stream_handle) {
    RETURN_IF_BROKEN;
    const auto stream = stream_of(stream_handle);
    if (!stream) return unknown_stream(stream_handle, __func__);
    const auto executable = executable_of(handle);
    if (!executable) return refuse(INVALID_VALUE, __func__, "unknown graph");
    if (stream->capture()) return refuse(NOT_SUPPORTED, __func__, "the fake has no graphs in graphs");
    std::vector<Work> works;
    for (const Node& node : executable->nodes) works.push_back(node.issue());
    stream->submit([executable, works] {
        for (size_t i = 0; i < works.size(); ++i) executable->lanes[executable->nodes[i].lane]->submit(works[i]);
        for (const auto& lane : executable->lanes) lane->synchronize();
    });
    return SUCCESS;
}
// What was launched still runs.
DRIVER cuGraphExecDestroy(void* handle) {
    const auto executable = executable_of(handle);
    if (!executable) return refuse(INVALID_VALUE, __func__, "unknown graph");
    std::lock_guard lock(fake::mutex());
    executables().erase(executable);
    return SUCCESS;
}
