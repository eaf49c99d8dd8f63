// Shared memory of the ranks of a communicator, be they threads or processes: who is there, and a queue of bytes for each pair.
//
// All of it begins as zeros, and is changed by atomic operations alone, so there is nobody who makes it ready, and no lock that a process
// could take to its grave.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "nccl_types.h"

namespace fakenccl {
// Bytes that a send may be ahead of its receive: one that is longer ends only when its receiver takes most of it.
constexpr uint64_t FIFO_BYTES = 64 << 10;
constexpr int MOST_RANKS = 256;
constexpr size_t LINE = 64;

// A unique id as the fake fills it.
struct Name {
    char magic[16];
    int64_t creator;  // process that made it
    uint64_t random[2];

    static Name fresh();
    // Whether the id is one of the fake's.
    static bool read(const ncclUniqueId& id, Name* name);
    ncclUniqueId id() const;
    // The name of a part of this communicator.
    Name child(uint64_t split, int color) const;
    std::string file() const;
};

// Sends and receives, and collectives, have connections of their own.
enum class Channel { messages, collectives };

// Bytes on their way from one rank to another: one writes, one reads.
struct Fifo {
    alignas(LINE) std::atomic<uint64_t> written;
    std::atomic<uint32_t> sender_is_here;
    alignas(LINE) std::atomic<uint64_t> taken;
    std::atomic<uint32_t> receiver_is_here;
    alignas(LINE) char bytes[FIFO_BYTES];

    // Moves up to so many bytes; returns how many there was room for, or that had come.
    size_t write(const char* from, size_t count);
    size_t read(char* to, size_t count);
};

struct alignas(LINE) Rank {
    std::atomic<uint32_t> bell;  // rings when something has changed that this rank may wait for
    std::atomic<uint32_t> taken, is_here, collectives_are_here;
    std::atomic<int64_t> process;
    uint64_t host;
    int device, color, key;
};

class Segment {
public:
    // Opens or makes the segment of the name. Null, with a text, if it cannot be, or is for another number of ranks.
    static std::shared_ptr<Segment> open(const Name& name, int ranks, std::string* why);
    ~Segment();
    Segment(const Segment&) = delete;

    int ranks() const { return ranks_; }
    Rank& rank(int number) { return ranks_begin()[number]; }
    Fifo& fifo(Channel channel, int from, int to);
    std::atomic<uint64_t>& barrier() { return header()->barrier; }
    // An error that all ranks learn of.
    std::atomic<int>& error() { return header()->error; }
    void ring(int rank);
    void ring_all();
    // Waits until the bell of the rank has rung since it was `seen`, or for a while.
    void wait(int rank, uint32_t seen);
    // Counts a rank in. The last one takes the name away.
    void join();
    // Takes away segments whose processes have all died before everybody had joined.
    static void remove_leftovers();

private:
    struct alignas(LINE) Header {
        std::atomic<int> ranks, error;
        std::atomic<uint32_t> joined;
        std::atomic<uint64_t> barrier;
    };

    Segment() = default;
    Header* header() { return static_cast<Header*>(memory_); }
    Rank* ranks_begin() { return reinterpret_cast<Rank*>(header() + 1); }
    static size_t bytes_for(int ranks);
    static bool is_abandoned(int file);

    std::string file_;
    void* memory_ = nullptr;
    size_t bytes_ = 0;
    int ranks_ = 0;
};
}  // namespace fakenccl
