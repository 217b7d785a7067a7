/* scheduler.cpp - fibers, barriers, and what goes wrong at them. */
#include "scheduler.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

thread_local cuemu_thread *cuemu_current;
thread_local cuemu_dim3 cuemu_block_id, cuemu_block_dim, cuemu_grid_dim;
unsigned long long cuemu_n_mma;

namespace {

enum state { READY, AT_BLOCK_BARRIER, AT_WARP_BARRIER, FINISHED };

struct fiber : cuemu_thread {
    state at;
    int line;
    unsigned mask;
    char *stack;
    void *stack_pointer;
#if !defined(__x86_64__)
    ucontext_t context;
#endif
};

constexpr size_t STACK_BYTES = 64 * 1024;
constexpr unsigned WARP = 32;
constexpr unsigned LANE_WORDS = 16;

thread_local std::vector<fiber> fibers;
thread_local fiber *running;
thread_local std::vector<unsigned char> shared_memory;
thread_local std::vector<unsigned> lane_words;
thread_local const cuemu_launch *current_launch;

#if defined(__SANITIZE_ADDRESS__)
thread_local const void *scheduler_stack;
thread_local size_t scheduler_stack_bytes;

void
before_switch(void **save, const void *stack, size_t n_byte)
{
    __sanitizer_start_switch_fiber(save, stack, n_byte);
}
void
after_switch(void *saved, const void **stack, size_t *n_byte)
{
    __sanitizer_finish_switch_fiber(saved, stack, n_byte);
}
#else
const void *scheduler_stack;
size_t scheduler_stack_bytes;

void
before_switch(void **, const void *, size_t)
{
}
void
after_switch(void *, const void **, size_t *)
{
}
#endif

#if defined(__x86_64__)
thread_local void *scheduler_pointer;
extern "C" void cuemu_switch(void **save, void *load);
asm(".text\n"
    ".type cuemu_switch,@function\n"
    "cuemu_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n"
    "  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp,(%rdi)\n"
    "  movq %rsi,%rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n"
    "  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n");

void
switch_to_scheduler()
{
    cuemu_switch(&running->stack_pointer, scheduler_pointer);
}
void
switch_to_fiber(fiber &f)
{
    cuemu_switch(&scheduler_pointer, f.stack_pointer);
}
#else
thread_local ucontext_t scheduler_context;

void
switch_to_scheduler()
{
    swapcontext(&running->context, &scheduler_context);
}
void
switch_to_fiber(fiber &f)
{
    swapcontext(&scheduler_context, &f.context);
}
#endif

void
leave()
{
    void *mine = nullptr;

    before_switch(running->at == FINISHED ? nullptr : &mine, scheduler_stack,
            scheduler_stack_bytes);
    switch_to_scheduler();
    after_switch(mine, nullptr, nullptr);
}

void
enter(fiber &f)
{
    void *mine = nullptr;

    running = &f;
    cuemu_current = &f;
    before_switch(&mine, f.stack, STACK_BYTES);
    switch_to_fiber(f);
    after_switch(mine, nullptr, nullptr);
    running = nullptr;
}

void
fiber_main()
{
    after_switch(nullptr, &scheduler_stack, &scheduler_stack_bytes);
    current_launch->run(current_launch->params);
    running->at = FINISHED;
    leave();
}

void
prepare(fiber &f)
{
    f.at = READY;
#if defined(__x86_64__)
    void **top = reinterpret_cast<void **>(
            reinterpret_cast<uintptr_t>(f.stack + STACK_BYTES) & ~uintptr_t{15});

    *--top = nullptr; /* so that the stack is aligned as after a call */
    *--top = reinterpret_cast<void *>(fiber_main);
    for (int i = 0; i < 6; i++) {
        *--top = nullptr;
    }
    f.stack_pointer = top;
#else
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack;
    f.context.uc_stack.ss_size = STACK_BYTES;
    f.context.uc_link = nullptr;
    makecontext(&f.context, fiber_main, 0);
#endif
}

/* Lets a warp go on when every lane that still runs has come to the barrier. */
const char *
release_warp(unsigned first, unsigned end, bool *released)
{
    unsigned there = 0, gone = 0;
    int line = -1;

    for (unsigned i = first; i < end; i++) {
        if (fibers[i].at == FINISHED) {
            gone |= 1u << (i - first);
        }
        else if (fibers[i].at == AT_WARP_BARRIER) {
            there |= 1u << (i - first);
        }
        else {
            return nullptr;
        }
    }
    if (there == 0) {
        return nullptr;
    }
    for (unsigned i = first; i < end; i++) {
        fiber &f = fibers[i];

        if (f.at != AT_WARP_BARRIER) {
            continue;
        }
        if ((f.mask & gone) != 0 && end - first == WARP) {
            return "a warp mask names a lane that has left";
        }
        if ((f.mask >> (i - first) & 1u) == 0) {
            return "a lane is not in its own warp mask";
        }
        if (line >= 0 && f.line != line) {
            return "lanes of a warp meet at different barriers";
        }
        line = f.line;
        f.at = READY;
    }
    *released = true;
    cuemu_trace_warp_barrier(first / WARP);
    return nullptr;
}

const char *
release_block(unsigned n_thread, bool *released)
{
    bool left = false;
    int line = -1;

    for (unsigned i = 0; i < n_thread; i++) {
        left |= fibers[i].at == FINISHED;
        if (fibers[i].at != FINISHED && fibers[i].at != AT_BLOCK_BARRIER) {
            return nullptr;
        }
    }
    if (left) {
        return "__syncthreads that a thread left the kernel without";
    }
    for (unsigned i = 0; i < n_thread; i++) {
        if (line >= 0 && fibers[i].line != line) {
            return "threads meet at different __syncthreads";
        }
        line = fibers[i].line;
        fibers[i].at = READY;
    }
    *released = true;
    cuemu_trace_block_barrier();
    return nullptr;
}

const char *
run_block(const std::vector<unsigned> &order)
{
    const unsigned n_thread = static_cast<unsigned>(order.size());
    unsigned n_left = n_thread;

    for (fiber &f : fibers) {
        prepare(f);
    }
    while (n_left > 0) {
        bool moved = false;
        const char *wrong = nullptr;

        for (unsigned i : order) {
            if (fibers[i].at == READY) {
                moved = true;
                enter(fibers[i]);
                n_left -= fibers[i].at == FINISHED;
            }
        }
        for (unsigned w = 0; w < n_thread && wrong == nullptr; w += WARP) {
            wrong = release_warp(w, std::min(n_thread, w + WARP), &moved);
        }
        if (wrong == nullptr && n_left > 0) {
            wrong = release_block(n_thread, &moved);
        }
        if (wrong != nullptr) {
            return wrong;
        }
        if (!moved) {
            return "threads wait for one another for ever";
        }
    }
    return nullptr;
}

void
resize_block(const cuemu_dim3 &block)
{
    const unsigned n_thread = block.x * block.y * block.z;

    for (size_t i = n_thread; i < fibers.size(); i++) {
        free(fibers[i].stack);
    }
    const size_t had = std::min<size_t>(fibers.size(), n_thread);
    fibers.resize(n_thread);
    for (unsigned i = 0; i < n_thread; i++) {
        if (i >= had) {
            fibers[i].stack = static_cast<char *>(malloc(STACK_BYTES));
        }
        fibers[i].linear = i;
        fibers[i].id = {i % block.x, i / block.x % block.y, i / block.x / block.y};
    }
    lane_words.assign((n_thread + WARP - 1) / WARP * WARP * LANE_WORDS, 0xA5A5A5A5u);
}

} // namespace

const char *
cuemu_run(const cuemu_launch &launch)
{
    const char *how = getenv("CUEMU_ORDER");
    const bool shuffled = how != nullptr && how[0] == 's';
    std::mt19937 random(shuffled ? static_cast<unsigned>(atoi(how + 1)) : 0u);
    const char *wrong = nullptr;

    resize_block(launch.block);
    std::vector<unsigned> order(fibers.size());
    std::iota(order.begin(), order.end(), 0u);
    if (how != nullptr && how[0] == 'r') {
        std::reverse(order.begin(), order.end());
    }
    current_launch = &launch;
    cuemu_block_dim = launch.block;
    cuemu_grid_dim = launch.grid;
    shared_memory = std::vector<unsigned char>(launch.shared_bytes + 16);
    const uint64_t n_block = uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
    for (uint64_t i = 0; i < n_block && wrong == nullptr; i++) {
        const uint64_t b = how != nullptr && how[0] == 'r' ? n_block - 1 - i : i;

        cuemu_block_id = {static_cast<unsigned>(b % launch.grid.x),
                static_cast<unsigned>(b / launch.grid.x % launch.grid.y),
                static_cast<unsigned>(b / launch.grid.x / launch.grid.y)};
        std::fill(shared_memory.begin(), shared_memory.end(), 0xA5);
        if (shuffled) {
            std::shuffle(order.begin(), order.end(), random);
        }
        cuemu_trace_block(static_cast<unsigned>(order.size()), launch.shared_bytes);
        wrong = run_block(order);
        cuemu_trace_block_end();
        const unsigned char *beyond = cuemu_shared() + launch.shared_bytes;
        const unsigned char *end = shared_memory.data() + shared_memory.size();
        if (wrong == nullptr &&
                std::any_of(beyond, end, [](unsigned char c) { return c != 0xA5; })) {
            wrong = "a store beyond the end of shared memory";
        }
    }
    return wrong;
}

int
cuemu_thread_index(void)
{
    return running == nullptr ? -1 : static_cast<int>(running->linear);
}

uintptr_t
cuemu_shared_begin(void)
{
    return reinterpret_cast<uintptr_t>(cuemu_shared());
}

size_t
cuemu_shared_bytes(void)
{
    return current_launch->shared_bytes;
}

extern "C" {
unsigned char *
cuemu_shared(void)
{
    return shared_memory.data(); /* operator new aligns to 16 */
}

void
cuemu_block_barrier(int line)
{
    running->at = AT_BLOCK_BARRIER;
    running->line = line;
    leave();
}

void
cuemu_warp_barrier(unsigned mask, int line)
{
    running->at = AT_WARP_BARRIER;
    running->line = line;
    running->mask = mask;
    leave();
}

unsigned *
cuemu_lane_words(unsigned lane)
{
    return &lane_words[((running->linear & ~(WARP - 1)) + lane) * LANE_WORDS];
}
}
