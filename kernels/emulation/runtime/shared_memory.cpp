#include "shared_memory.h"

#include <link.h>

#include <algorithm>
#include <cstring>
#include <map>

namespace cuemu {
namespace {
constexpr unsigned char POISON = 0xa5;
constexpr unsigned BEHIND = 1024;

struct Segment {
    const char* inside;
    char *begin, *end;
};

int find(dl_phdr_info* info, size_t, void* argument) {
    auto* segment = static_cast<Segment*>(argument);
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& header = info->dlpi_phdr[i];
        if (header.p_type != PT_TLS || !info->dlpi_tls_data) continue;
        char* begin = static_cast<char*>(info->dlpi_tls_data);
        char* end = begin + header.p_memsz;
        if (begin <= segment->inside && segment->inside < end) {
            segment->begin = begin;
            segment->end = end;
            return 1;
        }
    }
    return 0;
}
}  // namespace

SharedMemory& SharedMemory::of(const Module& module) {
    thread_local std::map<const Module*, SharedMemory> known;
    thread_local const Module* last = nullptr;
    thread_local SharedMemory* last_memory = nullptr;
    if (last == &module) return *last_memory;
    auto [place, is_new] = known.try_emplace(&module);
    if (is_new) {
        SharedMemory& memory = place->second;
        Segment segment = {module.some_shared(), nullptr, nullptr};
        dl_iterate_phdr(find, &segment);
        memory.begin_ = segment.begin;
        memory.end_ = segment.end;
        memory.capacity_ = module.dynamic_bytes;
        if (memory.capacity_) memory.dynamic_ = module.dynamic_shared();
    }
    last = &module;
    last_memory = &place->second;
    return *last_memory;
}

void SharedMemory::poison(unsigned dynamic_bytes) {
    if (!dynamic_) {
        memset(begin_, POISON, static_cast<size_t>(end_ - begin_));
        return;
    }
    memset(begin_, POISON, static_cast<size_t>(dynamic_ - begin_));
    memset(dynamic_, POISON, std::min(dynamic_bytes + BEHIND, capacity_));
    char* behind = dynamic_ + capacity_;
    memset(behind, POISON, static_cast<size_t>(end_ - behind));
}

bool SharedMemory::rest_is_poison(unsigned dynamic_bytes) const {
    if (!dynamic_) return true;
    const char* end = dynamic_ + std::min(dynamic_bytes + BEHIND, capacity_);
    return std::all_of(dynamic_ + dynamic_bytes, const_cast<char*>(end),
                       [](char byte) { return static_cast<unsigned char>(byte) == POISON; });
}
}  // namespace cuemu
