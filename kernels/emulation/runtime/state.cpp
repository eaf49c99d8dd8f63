#include "state.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace fake {
namespace {
std::atomic<int> broken{SUCCESS};

uint64_t environment(const char* name, uint64_t otherwise) {
    const char* value = getenv(name);
    return value && *value ? strtoull(value, nullptr, 10) : otherwise;
}

Fault planted() {
    const char* value = getenv("FAKECUDA_FAULT");
    const std::string text = value ? value : "";
    if (text.empty()) return {};
    const size_t colon = std::min(text.find(':'), text.size());
    const std::string kind = text.substr(0, colon), where = colon < text.size() ? text.substr(colon + 1) : "";
    constexpr std::pair<const char*, Fault::Kind> KINDS[] = {
        {"hang", Fault::Kind::hang},
        {"skip", Fault::Kind::skip},
        {"stick", Fault::Kind::stick},
        {"memory", Fault::Kind::memory},
    };
    for (const auto& [name, known] : KINDS) {
        if (kind == name && !where.empty()) return {known, where, strtoull(where.c_str(), nullptr, 10)};
    }
    fprintf(stderr, "fake driver: FAKECUDA_FAULT=%s: expected hang, skip or stick and a kernel, or memory and a number of bytes\n", value);
    abort();
}
}  // namespace

Settings::Settings()
    : seed(environment("FAKECUDA_SEED", 0)),
      drop_wait(environment("FAKECUDA_DROP_WAIT", 0)),
      memory(environment("FAKECUDA_MEMORY", 4ull << 30)),
      delay_us(static_cast<unsigned>(environment("FAKECUDA_DELAY_US", 0))),
      workers(static_cast<unsigned>(environment("FAKECUDA_WORKERS", 2))),
      devices(static_cast<unsigned>(environment("FAKECUDA_DEVICES", 1))),
      deadline_ms(static_cast<unsigned>(environment("FAKECUDA_DEADLINE_MS", 30000))),
      fault(planted()) {}

Settings& settings() {
    static auto* all = new Settings;
    return *all;
}

int sticky_error() {
    return broken.load();
}

void stick(int error) {
    int none = SUCCESS;
    broken.compare_exchange_strong(none, error);
}

int refuse(int error, const char* function, const char* why) {
    fprintf(stderr, "fake driver: %s returns %d: %s\n", function, error, why);
    return error;
}
}  // namespace fake

#define CONTROL extern "C" __attribute__((visibility("default")))

CONTROL void fakecuda_set_seed(uint64_t seed) {
    fake::settings().seed = seed;
}
CONTROL void fakecuda_set_delay_us(unsigned most) {
    fake::settings().delay_us = most;
}
CONTROL void fakecuda_set_workers(unsigned workers) {
    fake::settings().workers = workers;
}
CONTROL void fakecuda_set_devices(unsigned devices) {
    fake::settings().devices = devices;
}
CONTROL void fakecuda_set_memory(uint64_t bytes) {
    fake::settings().memory = bytes;
}
CONTROL void fakecuda_set_deadline_ms(unsigned milliseconds) {
    fake::settings().deadline_ms = milliseconds;
}
CONTROL void fakecuda_drop_wait(uint64_t number) {
    fake::settings().drop_wait = number;
}
CONTROL uint64_t fakecuda_launches() {
    return fake::settings().launches;
}
CONTROL uint64_t fakecuda_waits() {
    return fake::settings().waits;
}
CONTROL uint64_t fakecuda_bytes_copied() {
    return fake::settings().bytes_copied;
}
