#include "block.h"

#include <sched.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "shared_memory.h"

extern "C" {
__attribute__((visibility("default"))) __thread cuemu::Here cuemu_here __attribute__((tls_model("initial-exec")));
}

namespace cuemu {
namespace {
std::atomic<uint64_t> all_pauses{0};

__thread Block* running __attribute__((tls_model("initial-exec")));

const char* name_of(Call call) {
    switch (call) {
        case Call::none: return "nothing";
        case Call::sync_warp: return "__syncwarp";
        case Call::ballot: return "__ballot_sync";
        case Call::any: return "__any_sync";
        case Call::all: return "__all_sync";
        case Call::shuffle: return "__shfl_sync";
        case Call::shuffle_up: return "__shfl_up_sync";
        case Call::shuffle_down: return "__shfl_down_sync";
        case Call::shuffle_xor: return "__shfl_xor_sync";
        case Call::match_any: return "__match_any_sync";
        case Call::match_all: return "__match_all_sync";
        case Call::add: return "__reduce_add_sync";
        case Call::min_unsigned:
        case Call::min_signed: return "__reduce_min_sync";
        case Call::max_unsigned:
        case Call::max_signed: return "__reduce_max_sync";
        case Call::bit_and: return "__reduce_and_sync";
        case Call::bit_or: return "__reduce_or_sync";
        case Call::bit_xor: return "__reduce_xor_sync";
        case Call::sync_threads: return "__syncthreads";
        case Call::sync_threads_count: return "__syncthreads_count";
        case Call::sync_threads_and: return "__syncthreads_and";
        case Call::sync_threads_or: return "__syncthreads_or";
    }
    return "?";
}

// The first of `set` from `start` on, or of all where there is none. `set` is not empty, `start` is at most 32.
unsigned first_from(unsigned set, unsigned start) {
    const unsigned later = start < 32 ? set >> start << start : 0;
    return static_cast<unsigned>(__builtin_ctz(later ? later : set));
}

unsigned bit(unsigned lane) {
    return 1u << lane;
}
}  // namespace

Block::Fiber& Block::pick() {
    unsigned from_lane = current_ ? current_->lane : 0;
    if (random_) {
        const unsigned long long draw = random() >> 11;
        if (!run_ahead_ || !(ready_warps_ & bit(warp_))) warp_ = first_from(ready_warps_, draw & 31);
        from_lane = draw >> 8 & 31;
        // Now and then another block, so that blocks interleave in other ways, too.
        if ((draw >> 16 & 0x3ff) == 0) sched_yield();
    } else if (!(ready_warps_ & bit(warp_))) {
        warp_ = first_from(ready_warps_, warp_);
    }
    Warp& warp = warps_[warp_];
    const unsigned lane = first_from(warp.ready, from_lane);
    warp.ready &= ~bit(lane);
    if (!warp.ready) ready_warps_ &= ~bit(warp_);
    return fibers_[warp_ * 32 + lane];
}

// The meeting of this mask, which the current lane has now joined.
Block::Meeting& Block::join(Warp& warp, unsigned mask, Call call) {
    const unsigned me = bit(current_->lane);
    Meeting* meeting = nullptr;
    for (unsigned i = 0; i < warp.meeting_count; ++i) {
        if (warp.meetings[i].mask == mask) meeting = &warp.meetings[i];
    }
    if (!meeting) {
        meeting = &warp.meetings[warp.meeting_count++];
        *meeting = {mask, 0, call};
    }
    if (meeting->call != call) fail("lanes of a warp meet in different calls");
    meeting->arrived |= me;
    for (unsigned i = 0; i < warp.meeting_count; ++i) {
        const Meeting& other = warp.meetings[i];
        const bool wait_for_each_other = (other.arrived & mask) && (meeting->arrived & other.mask);
        if (&other != meeting && wait_for_each_other) fail("lanes of a warp meet with different masks");
    }
    return *meeting;
}

Block::Block() : scheduler_(own_context()) {}

void Block::run(const Grid& grid, uint64_t index) {
    prepare(grid, index);
    poison_shared();
    running = this;
    current_ = &pick();
    cuemu_here.thread = &current_->thread;
    cuemu_switch(&scheduler_, &current_->context);
    running = nullptr;
    check_shared();
}

void Block::prepare(const Grid& grid, uint64_t index) {
    grid_ = &grid;
    const dim3 size = grid.block_size;
    const unsigned threads = size.x * size.y * size.z;
    stacks_.reserve(threads);
    fibers_.resize(threads);
    warps_.resize((threads + 31) / 32);
    for (Warp& warp : warps_) warp.live = warp.ready = warp.meeting_count = 0;
    ready_warps_ = 0;
    for (unsigned i = 0; i < threads; ++i) {
        Fiber& fiber = fibers_[i];
        fiber = {stacks_.context(i, fiber_main), {i % size.x, i / size.x % size.y, i / size.x / size.y}, i / 32, i % 32, 0,
                 Call::none, false};
        warps_[i / 32].live |= bit(i % 32);
        make_ready(i / 32, bit(i % 32));
    }
    live_ = threads;
    warp_ = 0;
    pauses_ = 0;
    barrier_ = {};
    random_ = grid.seed ? (grid.seed * 0x9e3779b97f4a7c15 + index + 1) * 0xd1342543de82ef95 | 1 : 0;
    run_ahead_ = random_ && random() >> 17 & 1;
    cuemu_here.block = {unsigned(index % grid.size.x), unsigned(index / grid.size.x % grid.size.y),
                        unsigned(index / grid.size.x / grid.size.y)};
    cuemu_here.block_size = {size.x, size.y, size.z};
    cuemu_here.grid_size = {grid.size.x, grid.size.y, grid.size.z};
}

void Block::poison_shared() {
    SharedMemory::of(*grid_->module).poison(grid_->dynamic_bytes);
}

void Block::check_shared() {
    if (!SharedMemory::of(*grid_->module).rest_is_poison(grid_->dynamic_bytes)) {
        fail("a thread has written behind the dynamic shared memory of its block");
    }
}

void Block::fiber_main() {
    running->grid_->kernel->run(running->grid_->parameters);
    running->leave();
}

// Threads that have exited count as arrived wherever others wait for them.
void Block::leave() {
    Fiber& me = *current_;
    const size_t index = static_cast<size_t>(&me - fibers_.data());
    if (!stacks_.intact(index)) fail("a thread has overflowed its stack");
    me.done = true;
    me.call = Call::none;
    --live_;
    Warp& warp = warps_[me.warp];
    warp.live &= ~bit(me.lane);
    for (unsigned i = 0; i < warp.meeting_count;) {
        Meeting& meeting = warp.meetings[i];
        if ((meeting.mask & warp.live) == meeting.arrived) {
            finish(me.warp, meeting);  // the last one moves here
        } else {
            ++i;
        }
    }
    if (live_ && barrier_.arrived == live_) release_barrier();
    if (live_) {
        go_to(pick());
    } else {
        void* gone = me.context;
        cuemu_switch(&gone, &scheduler_);
    }
    abort();  // nobody switches to a thread that is done
}

unsigned long long Block::meet(unsigned mask, Call call, unsigned long long value, unsigned source, unsigned line) {
    Fiber& me = *current_;
    Warp& warp = warps_[me.warp];
    me.call = call;
    me.line = line;
    if (!(mask & bit(me.lane))) fail("a lane is not in its own mask");
    Meeting& meeting = join(warp, mask, call);
    warp.value[me.lane] = value;
    warp.source[me.lane] = static_cast<unsigned char>(source);
    if ((mask & warp.live) == meeting.arrived) {
        finish(me.warp, meeting);
        go_on();
    } else {
        wait();
    }
    return warp.result[me.lane];
}

int Block::barrier(Call call, int predicate, unsigned line) {
    Fiber& me = *current_;
    me.call = call;
    me.line = line;
    if (!barrier_.arrived) {
        barrier_.call = call;
        barrier_.sum = 0;
    } else if (barrier_.call != call) {
        fail("threads of a block meet in different barriers");
    }
    barrier_.sum += predicate != 0;
    if (++barrier_.arrived == live_) {
        release_barrier();
        go_on();
    } else {
        wait();
    }
    return barrier_.result;
}

void Block::pause(unsigned line) {
    Fiber& me = *current_;
    me.call = Call::none;
    me.line = line;
    all_pauses.fetch_add(1, std::memory_order_relaxed);
    if ((++pauses_ & 0xff) == 0 && std::chrono::steady_clock::now() > grid_->deadline) {
        fail("a thread still waits for another block, or for one that has exited");
    }
    if (!ready_warps_) {
        sched_yield();
        return;
    }
    make_ready(me.warp, bit(me.lane));
    if (!random_) {
        // Another one, or the waiting thread would be chosen for ever.
        warp_ = first_from(ready_warps_, me.warp + 1);
    } else if (run_ahead_) {
        warp_ = first_from(ready_warps_, unsigned(random() >> 20 & 31));
    }
    go_to(pick());
}

// All lanes of the meeting become ready, the caller as well if it is one, and the meeting is over.
void Block::finish(unsigned index, Meeting& meeting) {
    Warp& warp = warps_[index];
    const unsigned lanes = meeting.arrived;
    const unsigned first = static_cast<unsigned>(__builtin_ctz(lanes));
    unsigned long long all = 0;
    bool same = true;
    switch (meeting.call) {
        case Call::shuffle:
        case Call::shuffle_up:
        case Call::shuffle_down:
        case Call::shuffle_xor:
            for (unsigned rest = lanes; rest; rest &= rest - 1) {
                const unsigned lane = static_cast<unsigned>(__builtin_ctz(rest)), source = warp.source[lane];
                if (!(lanes & bit(source))) fail("a shuffle reads a lane that is outside of the mask or has exited");
                warp.result[lane] = warp.value[source];
            }
            break;
        case Call::match_any:
            for (unsigned rest = lanes; rest; rest &= rest - 1) {
                const unsigned lane = static_cast<unsigned>(__builtin_ctz(rest));
                unsigned equal = 0;
                for (unsigned others = lanes; others; others &= others - 1) {
                    const unsigned other = static_cast<unsigned>(__builtin_ctz(others));
                    if (warp.value[other] == warp.value[lane]) equal |= bit(other);
                }
                warp.result[lane] = equal;
            }
            break;
        default:
            all = warp.value[first];
            if (meeting.call == Call::ballot || meeting.call == Call::match_all) all = 0;
            for (unsigned rest = lanes; rest; rest &= rest - 1) {
                const unsigned lane = static_cast<unsigned>(__builtin_ctz(rest));
                const unsigned long long value = warp.value[lane];
                const auto left = static_cast<unsigned>(all), right = static_cast<unsigned>(value);
                const auto signed_left = static_cast<int>(left), signed_right = static_cast<int>(right);
                same = same && value == warp.value[first];
                switch (meeting.call) {
                    case Call::ballot: all |= value << lane; break;
                    case Call::any: all |= value; break;
                    case Call::all: all &= value; break;
                    case Call::add: all = lane == first ? value : left + right; break;
                    case Call::min_unsigned: all = left < right ? left : right; break;
                    case Call::max_unsigned: all = left > right ? left : right; break;
                    case Call::min_signed: all = signed_left < signed_right ? left : right; break;
                    case Call::max_signed: all = signed_left > signed_right ? left : right; break;
                    case Call::bit_and: all = left & right; break;
                    case Call::bit_or: all = left | right; break;
                    case Call::bit_xor: all = lane == first ? value : left ^ right; break;
                    default: break;
                }
            }
            if (meeting.call == Call::match_all) all = same ? meeting.mask : 0;
            for (unsigned rest = lanes; rest; rest &= rest - 1) warp.result[__builtin_ctz(rest)] = all;
    }
    meeting = warp.meetings[--warp.meeting_count];
    make_ready(index, lanes);
}

void Block::release_barrier() {
    switch (barrier_.call) {
        case Call::sync_threads_and: barrier_.result = barrier_.sum == barrier_.arrived; break;
        case Call::sync_threads_or: barrier_.result = barrier_.sum != 0; break;
        default: barrier_.result = static_cast<int>(barrier_.sum);
    }
    barrier_.arrived = 0;
    for (unsigned i = 0; i < warps_.size(); ++i) {
        if (warps_[i].live) make_ready(i, warps_[i].live);
    }
}

void Block::make_ready(unsigned warp, unsigned lanes) {
    warps_[warp].ready |= lanes;
    ready_warps_ |= bit(warp);
}

void Block::wait() {
    if (!ready_warps_) fail("nothing can run any more: a mask or a barrier waits for threads that never come");
    go_to(pick());
}

// For the thread that came last, which has made itself ready with the others.
void Block::go_on() {
    if (random_) return go_to(pick());
    Warp& warp = warps_[current_->warp];
    warp.ready &= ~bit(current_->lane);
    if (!warp.ready) ready_warps_ &= ~bit(current_->warp);
}

void Block::go_to(Fiber& next) {
    Fiber& me = *current_;
    if (&next == &me) return;
    current_ = &next;
    cuemu_here.thread = &next.thread;
    cuemu_switch(&me.context, &next.context);
}

unsigned long long Block::random() {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_;
}

void Block::fail(const char* what) {
    const uint3 b = cuemu_here.block, t = current_->thread;
    fprintf(stderr, "emulator: %s\n  kernel `%s`, block (%u,%u,%u), thread (%u,%u,%u), lane %u, line %u, in %s\n", what,
            grid_->kernel->name, b.x, b.y, b.z, t.x, t.y, t.z, current_->lane, current_->line, name_of(current_->call));
    unsigned shown = 0;
    for (const Fiber& fiber : fibers_) {
        if (fiber.done || &fiber == current_ || (warps_[fiber.warp].ready & bit(fiber.lane))) continue;
        if (++shown > 8) {
            fprintf(stderr, "  ...\n");
            break;
        }
        fprintf(stderr, "  thread (%u,%u,%u), lane %u waits at line %u in %s\n", fiber.thread.x, fiber.thread.y,
                fiber.thread.z, fiber.lane, fiber.line, name_of(fiber.call));
    }
    fflush(stderr);
    abort();
}
}  // namespace cuemu

extern "C" {
__attribute__((visibility("default"))) unsigned long long cuemu_meet(unsigned mask, cuemu::Call call,
                                                                     unsigned long long value, unsigned source,
                                                                     unsigned line) {
    return cuemu::running->meet(mask, call, value, source, line);
}
__attribute__((visibility("default"))) int cuemu_barrier(cuemu::Call call, int predicate, unsigned line) {
    return cuemu::running->barrier(call, predicate, line);
}
__attribute__((visibility("default"))) void cuemu_pause(unsigned line) {
    cuemu::running->pause(line);
}
__attribute__((visibility("default"))) uint64_t fakecuda_pauses() {
    return cuemu::all_pauses;
}
}
