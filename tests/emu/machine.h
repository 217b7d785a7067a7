/* machine.h - what the emulated driver has: memory, streams, contexts. */
#ifndef CUEMU_MACHINE_H
#define CUEMU_MACHINE_H

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

enum code {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    CONTEXT_IS_DESTROYED = 709,
    LAUNCH_FAILED = 719
};

constexpr size_t GUARD_BYTES = 64;
constexpr int MAX_SHARED_BYTES = 232448; /* of an H200 */

struct kernel {
    std::string name;
    void (*run)(const void *);
    size_t param_bytes;
};
struct context {
    int device;
    int sticky;
};
struct module {
    context *owner;
};
struct function {
    const kernel *what;
    context *owner;
    int max_shared_bytes;
};
struct stream {
    std::deque<std::function<void()>> todo;
    unsigned long long n_done = 0;
};
struct event {
    stream *on = nullptr;
    unsigned long long after = 0;
    std::shared_ptr<double> at_ms = std::make_shared<double>(0.0);
};

/* Addresses and sizes. */
typedef std::map<uintptr_t, size_t> memory_map;

extern memory_map device_memory, pinned_memory;
extern std::map<uintptr_t, int> memory_device; /* whose an allocation is */
extern std::set<stream *> streams;
extern std::map<std::string, int> n_call;
extern context contexts[8];
extern thread_local std::vector<context *> context_stack;

/* The integer that an environment variable holds. */
int number(const char *name, int otherwise);

/* Counts a call, and makes it fail when CUEMU_FAIL says so. */
int called(const char *name);

/* The context of this thread, or NULL. */
context *current();

/* What every call that needs a context begins with. */
int enter(const char *name);

/* The start of the allocation that an address lies in; 0 for none. */
uintptr_t allocation_of(uintptr_t address);

bool is_inside(const memory_map &memory, uintptr_t address, size_t n_byte);

/* Looks behind every allocation, and breaks the contexts when somebody wrote there. */
void check_guards();

/* 0 and 1 are the legacy stream, 2 that of the thread. */
stream *stream_of(void *handle);
bool is_legacy(const stream *s);
bool is_stream(void *handle);

void run_until(stream &s, unsigned long long n_done);
void run_all(stream &s);
void run_everything();
void enqueue(void *handle, std::function<void()> what);

void *allocate(size_t n_byte, int fill);
void release(uintptr_t address, size_t n_byte);
int allocate_device(uintptr_t *address, size_t n_byte);
int free_device(uintptr_t address);

#endif /* CUEMU_MACHINE_H */
