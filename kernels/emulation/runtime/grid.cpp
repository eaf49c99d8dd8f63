#include "grid.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

namespace cuemu {
namespace {
struct Job {
    const Grid* grid;
    uint64_t blocks;
    std::atomic<uint64_t> next{0}, done{0};
    std::mutex mutex;
    std::condition_variable finished;
};

// A helper that comes late finds no block left and must not look at the grid, which may be gone.
void work(Job& job) {
    thread_local Block block;
    for (;;) {
        const uint64_t index = job.next.fetch_add(1);
        if (index >= job.blocks) return;
        block.run(*job.grid, index);
        if (job.done.fetch_add(1) + 1 == job.blocks) {
            std::lock_guard lock(job.mutex);
            job.finished.notify_all();
        }
    }
}

// Threads that live as long as the process and help whoever launches.
class Helpers {
public:
    void call(const std::shared_ptr<Job>& job, unsigned count) {
        std::lock_guard lock(mutex_);
        for (unsigned i = 0; i < count; ++i) jobs_.push_back(job);
        for (; threads_ < count; ++threads_) std::thread([this] { serve(); }).detach();
        wake_.notify_all();
    }

private:
    void serve() {
        for (;;) {
            std::unique_lock lock(mutex_);
            wake_.wait(lock, [this] { return !jobs_.empty(); });
            std::shared_ptr<Job> job = std::move(jobs_.front());
            jobs_.pop_front();
            lock.unlock();
            work(*job);
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<std::shared_ptr<Job>> jobs_;
    unsigned threads_ = 0;
};

Helpers& helpers() {
    static auto* all = new Helpers;  // never destroyed: its threads outlive `main`
    return *all;
}
}  // namespace

void run(const Grid& grid, unsigned workers) {
    auto job = std::make_shared<Job>();
    job->grid = &grid;
    job->blocks = grid.blocks();
    const uint64_t useful = std::min<uint64_t>(std::max(workers, 1u), job->blocks);
    if (useful > 1) helpers().call(job, static_cast<unsigned>(useful - 1));
    work(*job);
    std::unique_lock lock(job->mutex);
    job->finished.wait(lock, [&job] { return job->done.load() == job->blocks; });
}
}  // namespace cuemu
