#include "nccl_segment.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <mutex>
#include <random>
#include <set>

namespace fakenccl {
namespace {
constexpr char MAGIC[16] = "fake NCCL, id 1";
constexpr const char* PREFIX = "fakenccl-";

// Files that this process may have to take away at its end.
std::mutex& mutex() {
    static auto* one = new std::mutex;
    return *one;
}
std::set<std::string>& unfinished() {
    static auto* all = new std::set<std::string>;
    return *all;
}

__attribute__((destructor)) void remove_unfinished() {
    std::lock_guard lock(mutex());
    for (const std::string& file : unfinished()) shm_unlink(file.c_str());
}

uint64_t mix(uint64_t a, uint64_t b) {
    a = (a ^ b) * 0x9e3779b97f4a7c15;
    return a ^ (a >> 29);
}

bool lives(int64_t process) {
    return kill(static_cast<pid_t>(process), 0) == 0 || errno != ESRCH;
}
}  // namespace

Name Name::fresh() {
    Name name = {};
    memcpy(name.magic, MAGIC, sizeof MAGIC);
    name.creator = getpid();
    std::random_device random;
    for (uint64_t& word : name.random) word = (uint64_t{random()} << 32) | random();
    return name;
}
bool Name::read(const ncclUniqueId& id, Name* name) {
    memcpy(name, id.internal, sizeof *name);
    return memcmp(name->magic, MAGIC, sizeof MAGIC) == 0;
}
ncclUniqueId Name::id() const {
    ncclUniqueId id = {};
    memcpy(id.internal, this, sizeof *this);
    return id;
}
Name Name::child(uint64_t split, int color) const {
    Name name = *this;
    const uint64_t which = (split << 32) | static_cast<uint32_t>(color);
    for (uint64_t& word : name.random) word = mix(mix(word, which), 0x2545f4914f6cdd1d);
    return name;
}
std::string Name::file() const {
    char text[80];
    snprintf(text, sizeof text, "/%s%lld-%016llx%016llx", PREFIX, static_cast<long long>(creator),
             static_cast<unsigned long long>(random[0]), static_cast<unsigned long long>(random[1]));
    return text;
}

size_t Fifo::write(const char* from, size_t count) {
    const uint64_t at = written.load(std::memory_order_relaxed);
    count = std::min<size_t>(count, FIFO_BYTES - (at - taken.load()));
    const size_t first = std::min<size_t>(count, FIFO_BYTES - at % FIFO_BYTES);
    memcpy(bytes + at % FIFO_BYTES, from, first);
    memcpy(bytes, from + first, count - first);
    written.store(at + count);
    return count;
}
size_t Fifo::read(char* to, size_t count) {
    const uint64_t at = taken.load(std::memory_order_relaxed);
    count = std::min<size_t>(count, written.load() - at);
    const size_t first = std::min<size_t>(count, FIFO_BYTES - at % FIFO_BYTES);
    memcpy(to, bytes + at % FIFO_BYTES, first);
    memcpy(to + first, bytes, count - first);
    taken.store(at + count);
    return count;
}

size_t Segment::bytes_for(int ranks) {
    const auto count = static_cast<size_t>(ranks);
    return sizeof(Header) + count * sizeof(Rank) + 2 * count * count * sizeof(Fifo);
}

std::shared_ptr<Segment> Segment::open(const Name& name, int ranks, std::string* why) {
    std::shared_ptr<Segment> segment(new Segment);
    segment->file_ = name.file();
    segment->ranks_ = ranks;
    segment->bytes_ = bytes_for(ranks);
    const auto failed = [&](const char* what) {
        *why = std::string(what) + " of shared memory " + segment->file_ + " failed: " + strerror(errno);
        return nullptr;
    };
    {
        std::lock_guard lock(mutex());
        unfinished().insert(segment->file_);
    }
    const int file = shm_open(segment->file_.c_str(), O_CREAT | O_RDWR, 0600);
    if (file < 0) return failed("opening");
    // Ranks that disagree about their number must not shorten what others use, so the file, which has holes, has one length for all.
    if (ftruncate(file, static_cast<off_t>(bytes_for(MOST_RANKS))) != 0) {
        close(file);
        return failed("making room");
    }
    void* memory = mmap(nullptr, segment->bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) return failed("mapping");
    segment->memory_ = memory;
    int others = 0;
    if (!segment->header()->ranks.compare_exchange_strong(others, ranks) && others != ranks) {
        *why = "this rank says that there are " + std::to_string(ranks) + " ranks, another one " + std::to_string(others);
        return nullptr;
    }
    return segment;
}

Segment::~Segment() {
    if (memory_) munmap(memory_, bytes_);
}

Fifo& Segment::fifo(Channel channel, int from, int to) {
    auto* first = reinterpret_cast<Fifo*>(ranks_begin() + ranks_);
    const int pair = from * ranks_ + to;
    return first[channel == Channel::messages ? pair : ranks_ * ranks_ + pair];
}

void Segment::ring(int number) {
    std::atomic<uint32_t>& bell = rank(number).bell;
    ++bell;
    syscall(SYS_futex, &bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}
void Segment::ring_all() {
    for (int i = 0; i < ranks_; ++i) ring(i);
}
void Segment::wait(int number, uint32_t seen) {
    const timespec most = {0, 100'000'000};
    syscall(SYS_futex, &rank(number).bell, FUTEX_WAIT, seen, &most, nullptr, 0);
}

void Segment::join() {
    if (++header()->joined < static_cast<uint32_t>(ranks_)) return;
    shm_unlink(file_.c_str());
    std::lock_guard lock(mutex());
    unfinished().erase(file_);
}

bool Segment::is_abandoned(int file) {
    struct stat facts = {};
    constexpr time_t STARTING_S = 5;
    if (fstat(file, &facts) != 0 || time(nullptr) - facts.st_ctime < STARTING_S) return false;
    const size_t bytes = sizeof(Header) + MOST_RANKS * sizeof(Rank);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) return false;
    Segment segment;
    segment.memory_ = memory;
    segment.bytes_ = bytes;
    const int ranks = std::min<int>(segment.header()->ranks, MOST_RANKS);
    for (int i = 0; i < ranks; ++i) {
        if (segment.rank(i).is_here && lives(segment.rank(i).process)) return false;
    }
    return true;
}

void Segment::remove_leftovers() {
    DIR* folder = opendir("/dev/shm");
    if (!folder) return;
    const std::string pattern = std::string(PREFIX) + "%lld-";
    while (const dirent* entry = readdir(folder)) {
        long long creator = 0;
        if (sscanf(entry->d_name, pattern.c_str(), &creator) != 1 || lives(creator)) continue;
        const std::string name = std::string("/") + entry->d_name;
        const int file = shm_open(name.c_str(), O_RDWR, 0);
        if (file < 0) continue;
        if (is_abandoned(file)) shm_unlink(name.c_str());
        close(file);
    }
    closedir(folder);
}
}  // namespace fakenccl
