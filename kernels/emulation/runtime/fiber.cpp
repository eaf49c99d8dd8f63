#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>

#if !defined(__x86_64__) || defined(CUEMU_UCONTEXT)
#define CUEMU_PORTABLE
#include <ucontext.h>
#endif

namespace cuemu {
namespace {
constexpr size_t STACK = 64 << 10;
constexpr uint64_t CANARY = 0x5afe57ac5afe57ac;
}  // namespace

Stacks::~Stacks() {
    if (memory_) munmap(memory_, count_ * STACK);
}

void Stacks::reserve(size_t count) {
    if (count <= count_) return;
    if (memory_) munmap(memory_, count_ * STACK);
    void* memory = mmap(nullptr, count * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        perror("emulator: no memory for stacks");
        abort();
    }
    memory_ = static_cast<char*>(memory);
    count_ = count;
}

bool Stacks::intact(size_t index) const {
    return *reinterpret_cast<const uint64_t*>(memory_ + index * STACK) == CANARY;
}

#ifndef CUEMU_PORTABLE

void* Stacks::context(size_t index, void (*main)()) {
    char* base = memory_ + index * STACK;
    *reinterpret_cast<uint64_t*>(base) = CANARY;
    // Staggered, or equal variables of all threads would share a few sets of the first cache.
    void** top = reinterpret_cast<void**>(base + STACK - (index % 61) * 192);
    *--top = nullptr;
    *--top = reinterpret_cast<void*>(main);
    for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
    return top;
}

void* own_context() {
    return nullptr;
}

// A context is its stack pointer: what the caller wants to keep is on the stack.
__asm__(
    ".text\n"
    ".globl cuemu_switch\n"
    ".type cuemu_switch, @function\n"
    "cuemu_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq (%rsi), %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n"
    ".size cuemu_switch, .-cuemu_switch\n");

#else

// The context lies at the top of its stack, so that nothing has to be freed.
void* Stacks::context(size_t index, void (*main)()) {
    char* base = memory_ + index * STACK;
    *reinterpret_cast<uint64_t*>(base) = CANARY;
    const size_t bytes = (sizeof(ucontext_t) + 63) / 64 * 64;
    auto* context = new (base + STACK - bytes) ucontext_t;
    getcontext(context);
    context->uc_stack = {};
    context->uc_stack.ss_sp = base + 64;
    context->uc_stack.ss_size = STACK - bytes - 64;
    context->uc_link = nullptr;
    makecontext(context, main, 0);
    return context;
}

void* own_context() {
    thread_local ucontext_t context;
    return &context;
}

extern "C" void cuemu_switch(void** from, void** to) {
    swapcontext(static_cast<ucontext_t*>(*from), static_cast<ucontext_t*>(*to));
}

#endif
}  // namespace cuemu
