#include "nccl_state.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace fakenccl {
namespace {
constexpr uint64_t DEFAULT_VERSION = 23007;

uint64_t environment(const char* name, uint64_t otherwise) {
    const char* value = getenv(name);
    return value && *value ? strtoull(value, nullptr, 10) : otherwise;
}

std::mutex& mutex() {
    static auto* one = new std::mutex;
    return *one;
}
// By functions: how many calls from now on fails.
std::map<std::string, uint64_t>& faults() {
    static auto* all = new std::map<std::string, uint64_t>;
    return *all;
}
char error_text[1024] = "";
}  // namespace

Settings::Settings()
    : version(static_cast<int>(environment("FAKENCCL_VERSION", DEFAULT_VERSION))),
      async_fail(environment("FAKENCCL_ASYNC_FAIL", 0)),
      corrupt(environment("FAKENCCL_CORRUPT", 0)),
      out_of_memory(environment("FAKENCCL_OOM", 0)),
      linger_ms(environment("FAKENCCL_LINGER_MS", 0)) {
    if (const char* planted = getenv("FAKENCCL_FAIL")) plant(planted);
}
Settings& settings() {
    static auto* all = new Settings;
    return *all;
}

bool comes_up(std::atomic<uint64_t>& countdown) {
    uint64_t left = countdown;
    while (left && !countdown.compare_exchange_weak(left, left - 1)) {
    }
    return left == 1;
}

void plant(const char* text) {
    const std::string all = text;
    for (size_t at = 0; at < all.size();) {
        const size_t end = std::min(all.find(',', at), all.size());
        const std::string one = all.substr(at, end - at);
        const size_t colon = one.find(':');
        const uint64_t number = colon == std::string::npos ? 0 : strtoull(one.c_str() + colon + 1, nullptr, 10);
        if (number == 0) {
            fprintf(stderr, "fake NCCL: cannot plant `%s`: expected FUNCTION:NUMBER, such as ncclSend:3\n", one.c_str());
            abort();
        }
        std::lock_guard lock(mutex());
        faults()[one.substr(0, colon)] = number;
        at = end + 1;
    }
}

bool is_planted(const char* function) {
    settings();  // has read the environment
    std::lock_guard lock(mutex());
    auto found = faults().find(function);
    return found != faults().end() && found->second && --found->second == 0;
}

ncclResult_t refuse(ncclResult_t result, const char* function, const std::string& why) {
    fprintf(stderr, "fake NCCL: %s returns %d: %s\n", function, result, why.c_str());
    std::lock_guard lock(mutex());
    snprintf(error_text, sizeof error_text, "%s: %s", function, why.c_str());
    return result;
}
const char* last_error() {
    return error_text;
}
}  // namespace fakenccl

#define CONTROL extern "C" __attribute__((visibility("default")))

CONTROL void fakenccl_set_version(uint64_t version) {
    fakenccl::settings().version = static_cast<int>(version);
}
CONTROL void fakenccl_fail(const char* faults) {
    fakenccl::plant(faults);
}
CONTROL void fakenccl_async_fail(uint64_t group) {
    fakenccl::settings().async_fail = group;
}
CONTROL void fakenccl_corrupt(uint64_t message) {
    fakenccl::settings().corrupt = message;
}
CONTROL void fakenccl_out_of_memory(uint64_t allocation) {
    fakenccl::settings().out_of_memory = allocation;
}
CONTROL uint64_t fakenccl_messages() {
    return fakenccl::settings().messages;
}
CONTROL uint64_t fakenccl_bytes() {
    return fakenccl::settings().bytes;
}
CONTROL uint64_t fakenccl_groups() {
    return fakenccl::settings().groups;
}
