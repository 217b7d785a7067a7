/* machine.cpp - see machine.h. */
#include "machine.h"

#include "scheduler.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

memory_map device_memory, pinned_memory;
std::map<uintptr_t, int> memory_device;
std::set<stream *> streams;
std::map<std::string, int> n_call;
context contexts[8];
thread_local std::vector<context *> context_stack;

static stream legacy_stream, thread_stream;

int
number(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return text == nullptr ? otherwise : atoi(text);
}

int
called(const char *name)
{
    const int n = ++n_call[name];
    const char *fail = getenv("CUEMU_FAIL");
    char which[64];
    int nth, code;

    if (fail != nullptr && sscanf(fail, "%63[^:]:%d:%d", which, &nth, &code) == 3 &&
            strcmp(which, name) == 0 && nth == n) {
        return code;
    }
    return SUCCESS;
}

context *
current()
{
    return context_stack.empty() ? nullptr : context_stack.back();
}

int
enter(const char *name)
{
    const int code = called(name);

    if (code != SUCCESS) {
        return code;
    }
    return current() == nullptr ? INVALID_CONTEXT : current()->sticky;
}

static const std::pair<const uintptr_t, size_t> *
find(const memory_map &memory, uintptr_t address)
{
    auto after = memory.upper_bound(address);

    if (after == memory.begin()) {
        return nullptr;
    }
    --after;
    return address < after->first + after->second ? &*after : nullptr;
}

uintptr_t
allocation_of(uintptr_t address)
{
    const auto *block = find(device_memory, address);

    return block == nullptr ? 0 : block->first;
}

bool
is_inside(const memory_map &memory, uintptr_t address, size_t n_byte)
{
    const auto *block = find(memory, address);

    return block != nullptr && address + n_byte <= block->first + block->second;
}

/* Whether nobody wrote behind an allocation. */
static bool
is_intact(uintptr_t address, size_t n_byte)
{
#if defined(__SANITIZE_ADDRESS__)
    (void)address; /* seen at the store itself */
    (void)n_byte;
#else
    const unsigned char *guard = reinterpret_cast<unsigned char *>(address) + n_byte;

    for (size_t i = 0; i < GUARD_BYTES; i++) {
        if (guard[i] != 0xEE) {
            fprintf(stderr, "cuemu: a store %zu bytes behind an allocation of %zu\n", i,
                    n_byte);
            return false;
        }
    }
#endif
    return true;
}

void
check_guards()
{
    for (const auto &block : device_memory) {
        if (!is_intact(block.first, block.second)) {
            for (context &c : contexts) {
                c.sticky = ILLEGAL_ADDRESS;
            }
        }
    }
}

stream *
stream_of(void *handle)
{
    if (handle == nullptr || handle == reinterpret_cast<void *>(1)) {
        return &legacy_stream;
    }
    return handle == reinterpret_cast<void *>(2) ? &thread_stream
                                                 : static_cast<stream *>(handle);
}

bool
is_legacy(const stream *s)
{
    return s == &legacy_stream;
}

bool
is_stream(void *handle)
{
    stream *s = stream_of(handle);

    return s == &legacy_stream || s == &thread_stream || streams.count(s) != 0;
}

void
run_until(stream &s, unsigned long long n_done)
{
    while (!s.todo.empty() && s.n_done < n_done) {
        const auto next = s.todo.front();

        s.todo.pop_front();
        s.n_done++;
        next();
    }
}

void
run_all(stream &s)
{
    run_until(s, ~0ull);
}

/* The legacy stream waits for all others, and they for it. */
void
run_everything()
{
    for (stream *s : streams) {
        run_all(*s);
    }
    run_all(thread_stream);
    run_all(legacy_stream);
    check_guards();
}

void
enqueue(void *handle, std::function<void()> what)
{
    stream &s = *stream_of(handle);

    s.todo.push_back(std::move(what));
    if (number("CUEMU_LAZY", 0) == 0) {
        run_all(s);
    }
}

void *
allocate(size_t n_byte, int fill)
{
    const size_t room = (n_byte + GUARD_BYTES + 255) / 256 * 256;
    unsigned char *memory = static_cast<unsigned char *>(aligned_alloc(256, room));

    if (memory != nullptr) {
        memset(memory, fill, n_byte);
        memset(memory + n_byte, 0xEE, GUARD_BYTES);
#if defined(__SANITIZE_ADDRESS__)
        ASAN_POISON_MEMORY_REGION(memory + n_byte, room - n_byte);
#endif
    }
    return memory;
}

void
release(uintptr_t address, size_t n_byte)
{
    if (!is_intact(address, n_byte)) {
        contexts[0].sticky = ILLEGAL_ADDRESS;
    }
#if defined(__SANITIZE_ADDRESS__)
    ASAN_UNPOISON_MEMORY_REGION(reinterpret_cast<void *>(address),
            (n_byte + GUARD_BYTES + 255) / 256 * 256);
#endif
    memset(reinterpret_cast<void *>(address), 0xDD, n_byte); /* used after: seen */
    free(reinterpret_cast<void *>(address));
}

int
allocate_device(uintptr_t *address, size_t n_byte)
{
    void *memory = n_byte == 0 ? nullptr : allocate(n_byte, 0xCD);

    if (memory == nullptr) {
        return n_byte == 0 ? INVALID_VALUE : OUT_OF_MEMORY;
    }
    *address = reinterpret_cast<uintptr_t>(memory);
    device_memory[*address] = n_byte;
    memory_device[*address] = current()->device;
    return SUCCESS;
}

int
free_device(uintptr_t address)
{
    const auto block = device_memory.find(address);

    if (block == device_memory.end()) {
        return INVALID_VALUE;
    }
    release(address, block->second);
    device_memory.erase(block);
    return SUCCESS;
}

bool
cuemu_is_device(uintptr_t address)
{
    return find(device_memory, address) != nullptr;
}
