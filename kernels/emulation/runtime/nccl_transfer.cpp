#include "nccl_transfer.h"

#include <algorithm>
#include <cstring>

namespace fakenccl {
namespace {
// Every message begins with its length, so that a receive of another length is noticed.
constexpr size_t PREFIX = sizeof(Transfer::announced);

// Moves what can be moved now. Returns whether that was anything.
bool step(Transfer& transfer, Fifo& fifo) {
    const size_t before = transfer.done;
    if (transfer.sends) transfer.announced = transfer.bytes;
    auto* prefix = reinterpret_cast<char*>(&transfer.announced);
    const auto move = [&](char* bytes, size_t count) {
        transfer.done += transfer.sends ? fifo.write(bytes, count) : fifo.read(bytes, count);
    };
    if (transfer.done < PREFIX) move(prefix + transfer.done, PREFIX - transfer.done);
    const bool fits = transfer.announced == transfer.bytes;
    if (transfer.done >= PREFIX && fits && transfer.bytes > 0) {
        move(transfer.memory + (transfer.done - PREFIX), transfer.whole() - transfer.done);
    }
    return transfer.done != before;
}

void finish(Transfer& transfer) {
    if (transfer.sends || !transfer.counts || transfer.bytes == 0) return;
    ++settings().messages;
    settings().bytes += transfer.bytes;
    if (comes_up(settings().corrupt)) transfer.memory[transfer.bytes / 2] ^= 1;
}

void complain(Comm& comm, const Transfer& transfer) {
    const std::string own = std::to_string(comm.rank), peer = std::to_string(transfer.peer);
    refuse(ncclInvalidUsage, transfer.counts ? "ncclRecv" : "a collective",
           "rank " + own + " receives " + std::to_string(transfer.bytes) + " bytes from rank " + peer + ", which sends " +
               std::to_string(transfer.announced));
    comm.segment->error() = ncclInvalidUsage;
    comm.segment->ring_all();
}
}  // namespace

bool exchange(Comm& comm, Channel channel, std::vector<Transfer> transfers) {
    Segment& segment = *comm.segment;
    std::vector<bool> busy;
    for (;;) {
        const uint32_t seen = segment.rank(comm.rank).bell;
        bool moved = false, open = false;
        busy.assign(2 * static_cast<size_t>(comm.size), false);
        for (Transfer& transfer : transfers) {
            const size_t lane = 2 * static_cast<size_t>(transfer.peer) + transfer.sends;
            if (transfer.done == transfer.whole() || busy[lane]) continue;
            busy[lane] = open = true;
            const int from = transfer.sends ? comm.rank : transfer.peer, to = transfer.sends ? transfer.peer : comm.rank;
            if (step(transfer, segment.fifo(channel, from, to))) {
                moved = true;
                segment.ring(transfer.peer);
            }
            if (transfer.done == transfer.whole()) finish(transfer);
            if (transfer.done >= PREFIX && transfer.announced != transfer.bytes) complain(comm, transfer);
        }
        if (!open) return true;
        if (comm.stopped()) return false;
        if (!moved) segment.wait(comm.rank, seen);
    }
}
}  // namespace fakenccl
