#include "nccl_group.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

namespace fakenccl {
namespace {
struct Group {
    int depth = 0;
    ncclResult_t result = ncclSuccess;
    std::vector<Plan> plans;
    std::vector<NewComm> new_comms;
};
thread_local Group group;

ncclResult_t worse(ncclResult_t a, ncclResult_t b) {
    return a != ncclSuccess && a != ncclInProgress ? a : b != ncclSuccess ? b : a;
}

// Starts threads in which the communicators meet.
std::vector<std::thread> start(const std::vector<NewComm>& new_comms) {
    std::map<Comm*, std::vector<std::function<void()>>> lanes;
    std::vector<std::thread> threads;
    for (const NewComm& made : new_comms) {
        lanes[made.parent ? made.parent.get() : made.comm.get()].push_back(made.meet);
    }
    for (auto& lane : lanes) {
        threads.emplace_back([all = std::move(lane.second)] {
            for (const auto& meet : all) meet();
        });
    }
    return threads;
}

void drop(const NewComm& made) {
    if (made.comm) forget(made.comm->handle());
    *made.out = nullptr;
}

ncclResult_t make(const std::vector<NewComm>& new_comms) {
    bool blocking = true;
    for (const NewComm& made : new_comms) {
        blocking = blocking && (!made.parent || made.parent->blocking) && (!made.comm || made.comm->blocking);
        if (made.parent) made.parent->state = ncclInProgress;
    }
    std::vector<std::thread> threads = start(new_comms);
    if (!blocking) {
        for (std::thread& thread : threads) thread.detach();
        // The call tells how far it is, which may be done.
        const auto comm = new_comms[0].comm;
        for (uint64_t ms = 0; comm && comm->async_error() == ncclInProgress && ms < settings().linger_ms; ++ms) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return comm && settings().linger_ms ? comm->async_error() : ncclInProgress;
    }
    ncclResult_t result = ncclSuccess;
    for (std::thread& thread : threads) thread.join();
    for (const NewComm& made : new_comms) {
        if (!made.comm || made.comm->state == ncclSuccess) continue;
        result = worse(result, static_cast<ncclResult_t>(made.comm->state.load()));
        drop(made);
    }
    return result;
}

// A rank that sends to itself must receive it in the same group.
ncclResult_t check_own(const Plan& plan) {
    int sends = 0, receives = 0;
    for (const Op& op : plan.ops) {
        if (op.peer != plan.comm->rank) continue;
        sends += op.kind == Kind::send;
        receives += op.kind == Kind::receive;
    }
    if (sends == receives) return ncclSuccess;
    return refuse(ncclInvalidUsage, "ncclGroupEnd", "rank " + std::to_string(plan.comm->rank) + " has " + std::to_string(sends) +
                                                        " sends to itself and " + std::to_string(receives) + " receives in one group");
}

// Connects new peers and puts the work into the streams.
ncclResult_t launch(std::vector<Plan>& plans) {
    for (Plan& plan : plans) {
        if (plan.connect()) continue;
        return refuse(ncclInternalError, "ncclGroupEnd", "aborted while peers were missing");
    }
    ncclResult_t result = ncclSuccess;
    for (const Plan& plan : plans) result = worse(result, plan.submit());
    return result;
}

ncclResult_t start(std::vector<Plan> plans) {
    bool strangers = false, blocking = true;
    for (const Plan& plan : plans) {
        if (const ncclResult_t result = check_own(plan)) return result;
        blocking = blocking && plan.comm->blocking;
        if (plan.comm->blocking != plans[0].comm->blocking) {
            return refuse(ncclInvalidArgument, "ncclGroupEnd", "blocking and nonblocking communicators in one group");
        }
    }
    for (const Plan& plan : plans) strangers = strangers || plan.has_strangers();
    if (strangers && comes_up(settings().out_of_memory)) {
        return refuse(ncclUnhandledCudaError, "ncclGroupEnd", "Cuda failure 2 'out of memory'");
    }
    ++settings().groups;
    const bool stuck = comes_up(settings().async_fail);
    for (Plan& plan : plans) {
        plan.stuck = stuck;
        plan.announce();
    }
    const auto finish = [stuck](std::vector<Plan>& all) {
        const ncclResult_t result = launch(all);
        for (Plan& plan : all) {
            if (stuck) plan.comm->fail(ncclSystemError, "asynchronous work", "a planted error");
            else if (!plan.comm->blocking) plan.comm->state = result;
        }
        return result;
    };
    if (blocking || !strangers) return finish(plans);
    for (Plan& plan : plans) plan.comm->state = ncclInProgress;
    std::thread([plans = std::move(plans), finish]() mutable { finish(plans); }).detach();
    return ncclInProgress;
}
}  // namespace

void begin_group() {
    ++group.depth;
}
bool is_in_group() {
    return group.depth > 0;
}
void spoil_group(ncclResult_t result) {
    if (group.result == ncclSuccess) group.result = result;
}

void add(const std::shared_ptr<Comm>& comm, const Op& op, void* stream) {
    auto& plans = group.plans;
    auto plan = std::find_if(plans.begin(), plans.end(), [&](const Plan& one) { return one.comm == comm; });
    if (plan == plans.end()) plan = plans.insert(plan, Plan{comm, {}, {}});
    plan->ops.push_back(op);
    auto& streams = plan->streams;
    if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
}
void add(NewComm made) {
    group.new_comms.push_back(std::move(made));
}

ncclResult_t end_group(const char* function) {
    if (group.depth == 0) return refuse(ncclInvalidUsage, function, "not in a group call");
    if (--group.depth > 0) return ncclSuccess;
    const Group all = std::move(group);
    group = Group();
    ncclResult_t result = all.result;
    if (result == ncclSuccess && !all.new_comms.empty() && !all.plans.empty()) {
        result = refuse(ncclInvalidUsage, function, "communicators are made and used in one group");
    }
    if (result != ncclSuccess) {
        for (const NewComm& made : all.new_comms) drop(made);
        return result;
    }
    if (!all.new_comms.empty()) return make(all.new_comms);
    return all.plans.empty() ? ncclSuccess : start(all.plans);
}
}  // namespace fakenccl
