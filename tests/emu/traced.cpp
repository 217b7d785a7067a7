/* traced.cpp - watches every access of the kernels to memory.
 *
 * The kernels are built with -fsanitize=thread, so gcc calls __tsan_readN and
 * __tsan_writeN for each access; these are our own, libtsan is not linked. From them:
 *
 * races: two accesses of one byte of shared memory by different threads, one of them a
 * store, with no barrier in between that both came to. Found whatever the order in
 * which the threads ran.
 *
 * counts: for each place in the code the requests (one instruction of one warp) and
 * what they cost: sectors of 32 bytes and lines of 128 of global memory, or wavefronts
 * of shared memory (the most different words that fall into one bank). Lanes are
 * matched by how often each has come to the place since the last barrier of the block.
 *
 * CUEMU_COUNT_EVERY=n counts every n-th block alone. */
#include "scheduler.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

constexpr unsigned WARP = 32, BANKS = 32;

/* Who touched a byte last, and in which stretch between barriers. */
struct touch {
    int thread = -1;
    unsigned block_epoch = 0, warp_epoch = 0;
};
struct shadow {
    touch store, load;
    bool many_loads = false; /* by several threads in the epoch of load */
};
struct access {
    uintptr_t address;
    unsigned n_byte;
};
struct total {
    unsigned long long n_request = 0, cost = 0, n_byte = 0, n_line = 0;
};

std::vector<shadow> shadows;
std::vector<unsigned> warp_epochs;
unsigned block_epoch;
bool counting;
unsigned long long n_block;

/* Of the current stretch: place, warp, how often; then the lanes' accesses. */
typedef std::pair<uintptr_t, unsigned long long> request_key;
std::map<request_key, std::vector<access>> requests[2];
std::vector<std::unordered_map<uintptr_t, unsigned>> visits; /* (thread) of a place */
std::map<std::pair<uintptr_t, int>, total> totals;
std::set<uintptr_t> races;

uintptr_t
library_base()
{
    static uintptr_t base;

    if (base == 0) {
        Dl_info info;

        dladdr(reinterpret_cast<void *>(&library_base), &info);
        base = reinterpret_cast<uintptr_t>(info.dli_fbase);
    }
    return base;
}

unsigned long long
count_pieces(const std::vector<access> &lanes, unsigned size)
{
    std::set<uintptr_t> pieces;

    for (const access &a : lanes) {
        for (uintptr_t s = a.address / size; s <= (a.address + a.n_byte - 1) / size;
                s++) {
            pieces.insert(s);
        }
    }
    return pieces.size();
}

unsigned long long
count_wavefronts(const std::vector<access> &lanes)
{
    std::set<uintptr_t> words;
    unsigned of_bank[BANKS] = {0}, most = 0;

    for (const access &a : lanes) {
        for (uintptr_t w = a.address / 4; w <= (a.address + a.n_byte - 1) / 4; w++) {
            words.insert(w);
        }
    }
    for (uintptr_t w : words) {
        const unsigned n = ++of_bank[w % BANKS];

        most = n > most ? n : most;
    }
    return most;
}

void
finish_stretch()
{
    for (int shared = 0; shared < 2; shared++) {
        for (const auto &request : requests[shared]) {
            total &t = totals[{request.first.first, shared}];

            t.n_request++;
            t.cost += shared != 0 ? count_wavefronts(request.second)
                                  : count_pieces(request.second, 32);
            t.n_line += shared != 0 ? 0 : count_pieces(request.second, 128);
            for (const access &a : request.second) {
                t.n_byte += a.n_byte;
            }
        }
        requests[shared].clear();
    }
    for (auto &places : visits) {
        places.clear();
    }
}

/* Whether nothing orders the earlier touch before the thread's present one. */
bool
is_unordered(const touch &before, int thread)
{
    const unsigned warp = static_cast<unsigned>(thread) / WARP;

    if (before.thread < 0 || before.thread == thread ||
            before.block_epoch != block_epoch) {
        return false;
    }
    return static_cast<unsigned>(before.thread) / WARP != warp ||
           before.warp_epoch == warp_epochs[warp];
}

bool
is_race(shadow &s, int thread, bool store)
{
    const touch now = {
            thread, block_epoch, warp_epochs[static_cast<unsigned>(thread) / WARP]};
    const bool bad =
            is_unordered(s.store, thread) ||
            (store && (is_unordered(s.load, thread) ||
                              (s.many_loads && s.load.block_epoch == block_epoch)));

    if (store) {
        s.store = now;
    }
    else {
        s.many_loads = s.load.block_epoch == block_epoch && s.load.thread >= 0 &&
                       (s.many_loads || s.load.thread != thread);
        s.load = now;
    }
    return bad;
}

void
touched(void *pointer, unsigned n_byte, bool store, void *from)
{
    const int thread = cuemu_thread_index();
    const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    const uintptr_t begin = thread < 0 ? 0 : cuemu_shared_begin();
    const uintptr_t place = reinterpret_cast<uintptr_t>(from) - library_base() - 1;
    bool shared;

    if (thread < 0) {
        return;
    }
    shared = address >= begin && address < begin + cuemu_shared_bytes();
    for (unsigned i = 0; shared && i < n_byte && address - begin + i < shadows.size();
            i++) {
        if (is_race(shadows[address - begin + i], thread, store)) {
            races.insert(place);
        }
    }
    if (!counting || (!shared && !cuemu_is_device(address))) {
        return; /* a stack, or parameters */
    }
    const unsigned warp = static_cast<unsigned>(thread) / WARP;
    const unsigned visit = visits[static_cast<unsigned>(thread)][place]++;
    const request_key key = {place, static_cast<unsigned long long>(visit) << 8 | warp};

    requests[shared ? 1 : 0][key].push_back(
            {shared ? address - begin : address, n_byte});
}

} // namespace

void
cuemu_trace_block(unsigned n_thread, size_t shared_bytes)
{
    const char *every = getenv("CUEMU_COUNT_EVERY");
    const unsigned long long step = every == nullptr ? 1 : strtoull(every, nullptr, 10);

    counting = step != 0 && n_block++ % step == 0;
    shadows.assign(shared_bytes, shadow());
    warp_epochs.assign((n_thread + WARP - 1) / WARP, 1);
    visits.assign(n_thread, {});
    block_epoch = 1;
}

void
cuemu_trace_block_barrier(void)
{
    block_epoch++;
    finish_stretch();
}

void
cuemu_trace_warp_barrier(unsigned warp)
{
    warp_epochs[warp]++;
}

void
cuemu_trace_block_end(void)
{
    finish_stretch();
}

extern "C" {

/* "race place", "shared place requests wavefronts bytes 0", "global place requests
 * sectors bytes lines", one a line; places are offsets into this library. Then
 * everything is forgotten. */
__attribute__((visibility("default"))) const char *
cuemu_trace_report(void)
{
    static std::string text;
    char line[160];

    text.clear();
    for (uintptr_t place : races) {
        snprintf(line, sizeof line, "race %#zx\n", static_cast<size_t>(place));
        text += line;
    }
    for (const auto &t : totals) {
        snprintf(line, sizeof line, "%s %#zx %llu %llu %llu %llu\n",
                t.first.second != 0 ? "shared" : "global",
                static_cast<size_t>(t.first.first), t.second.n_request, t.second.cost,
                t.second.n_byte, t.second.n_line);
        text += line;
    }
    races.clear();
    totals.clear();
    n_block = 0;
    return text.c_str();
}

#define WATCH(n)                                                                       \
    void __tsan_read##n(void *p)                                                       \
    {                                                                                  \
        touched(p, n, false, __builtin_return_address(0));                             \
    }                                                                                  \
    void __tsan_write##n(void *p)                                                      \
    {                                                                                  \
        touched(p, n, true, __builtin_return_address(0));                              \
    }                                                                                  \
    void __tsan_unaligned_read##n(void *p)                                             \
    {                                                                                  \
        touched(p, n, false, __builtin_return_address(0));                             \
    }                                                                                  \
    void __tsan_unaligned_write##n(void *p)                                            \
    {                                                                                  \
        touched(p, n, true, __builtin_return_address(0));                              \
    }
WATCH(1)
WATCH(2)
WATCH(4)
WATCH(8)
WATCH(16)

void
__tsan_read_range(void *p, unsigned long n)
{
    touched(p, static_cast<unsigned>(n), false, __builtin_return_address(0));
}
void
__tsan_write_range(void *p, unsigned long n)
{
    touched(p, static_cast<unsigned>(n), true, __builtin_return_address(0));
}
void
__tsan_func_entry(void *)
{
}
void
__tsan_func_exit(void)
{
}
void
__tsan_init(void)
{
}
}
