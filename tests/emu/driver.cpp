/* driver.cpp - a stand-in for libcuda.so.1: the driver's names and ABI, on the CPU.
 *
 * The host code under test is the shipped host code; only the library that it opens is
 * another one. Environment, read at each call:
 *
 *   CUEMU_FAIL=name:n:code   the n-th call of a function fails with that code
 *   CUEMU_ORDER              see scheduler.h
 *   CUEMU_DEVICES=n          devices (1);  CUEMU_ARCH=90  their compute capability
 *   CUEMU_LAZY=1             streams do nothing before somebody waits for them
 *   CUEMU_TIMES=name:ms,..   what kernels take by the clock of events (0)
 *   CUEMU_CAPTURING=1        every stream is being captured into a graph
 */
#include "machine.h"
#include "scheduler.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace {

std::recursive_mutex lock;
double clock_ms;                   /* of what has run */
std::vector<std::string> launches; /* "kernel stream" */

std::map<std::string, kernel> &
kernels()
{
    static std::map<std::string, kernel> all;
    return all;
}

void
launch(const function &f, const cuemu_launch &how)
{
    const char *wrong = cuemu_run(how);
    const char *times = getenv("CUEMU_TIMES");
    const std::string mine = f.what->name + ":";
    const char *found = times == nullptr ? nullptr : strstr(times, mine.c_str());

    clock_ms += found == nullptr ? 0.0 : atof(found + mine.size());
    if (wrong != nullptr) {
        fprintf(stderr, "cuemu: %s, block (%u, %u, %u): %s\n", f.what->name.c_str(),
                cuemu_block_id.x, cuemu_block_id.y, cuemu_block_id.z, wrong);
        f.owner->sticky = LAUNCH_FAILED;
    }
}

bool
are_legal(const cuemu_dim3 &grid, const cuemu_dim3 &block)
{
    const unsigned long long n_thread = 1ull * block.x * block.y * block.z;

    return grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= 0x7fffffffu &&
           grid.y <= 65535 && grid.z <= 65535 && n_thread > 0 && n_thread <= 1024 &&
           block.z <= 64;
}

} // namespace

extern "C" void
cuemu_register(const char *name, void (*run)(const void *), size_t param_bytes)
{
    kernels()[name] = kernel{name, run, param_bytes};
}

#define API extern "C" __attribute__((visibility("default"))) int
#define GUARD const std::lock_guard<std::recursive_mutex> guard(lock)
#define CALLED(name)                                                                   \
    GUARD;                                                                             \
    if (const int failed = called(#name)) {                                            \
        return failed;                                                                 \
    }
#define ENTER(name)                                                                    \
    GUARD;                                                                             \
    if (const int failed = enter(#name)) {                                             \
        return failed;                                                                 \
    }

/* ---- for the tests ---- */

API
cuemu_reset(void)
{
    GUARD;
    run_everything();
    n_call.clear();
    launches.clear();
    for (context &c : contexts) {
        c.sticky = SUCCESS;
    }
    return static_cast<int>(device_memory.size());
}

API
cuemu_calls(const char *name)
{
    GUARD;
    return n_call.count(name) != 0 ? n_call[name] : 0;
}

/* Kernels and their streams, in the order of their launches, one a line. */
extern "C" __attribute__((visibility("default"))) const char *
cuemu_launches(void)
{
    static std::string text;

    GUARD;
    text.clear();
    for (const std::string &line : launches) {
        text += line + "\n";
    }
    return text.c_str();
}

API
cuemu_context_depth(void)
{
    return static_cast<int>(context_stack.size());
}

API
cuemu_live_allocations(void)
{
    GUARD;
    return static_cast<int>(device_memory.size());
}

/* ---- the driver ---- */

API
cuInit(unsigned)
{
    CALLED(cuInit)
    return number("CUEMU_DEVICES", 1) == 0 ? NO_DEVICE : SUCCESS;
}

API
cuDriverGetVersion(int *version)
{
    *version = number("CUEMU_VERSION", 13000);
    return SUCCESS;
}

API
cuDeviceGetCount(int *n)
{
    CALLED(cuDeviceGetCount)
    *n = number("CUEMU_DEVICES", 1);
    return SUCCESS;
}

API
cuDeviceGet(int *device, int ordinal)
{
    if (ordinal < 0 || ordinal >= number("CUEMU_DEVICES", 1)) {
        return INVALID_DEVICE;
    }
    *device = ordinal;
    return SUCCESS;
}

API
cuDeviceGetName(char *name, int n_byte, int)
{
    snprintf(name, static_cast<size_t>(n_byte), "cuemu");
    return SUCCESS;
}

API
cuDeviceGetAttribute(int *value, int attribute, int)
{
    const int arch = number("CUEMU_ARCH", 90);

    switch (attribute) {
        case 16: /* multiprocessors */
            *value = 132;
            return SUCCESS;
        case 75:
            *value = arch / 10;
            return SUCCESS;
        case 76:
            *value = arch % 10;
            return SUCCESS;
        case 97: /* shared bytes a block, at most */
            *value = number("CUEMU_SHARED", MAX_SHARED_BYTES);
            return SUCCESS;
        default:
            return INVALID_VALUE;
    }
}

API
cuDevicePrimaryCtxRetain(void **handle, int device)
{
    CALLED(cuDevicePrimaryCtxRetain)
    contexts[device].device = device;
    *handle = &contexts[device];
    return SUCCESS;
}

API
cuCtxPushCurrent_v2(void *handle)
{
    CALLED(cuCtxPushCurrent_v2)
    context_stack.push_back(static_cast<context *>(handle));
    return SUCCESS;
}

API
cuCtxPopCurrent_v2(void **handle)
{
    CALLED(cuCtxPopCurrent_v2)
    if (context_stack.empty()) {
        return INVALID_CONTEXT;
    }
    *handle = context_stack.back();
    context_stack.pop_back();
    return SUCCESS;
}

API
cuCtxSynchronize(void)
{
    ENTER(cuCtxSynchronize)
    run_everything();
    return current()->sticky;
}

API
cuModuleLoadData(void **handle, const void *image)
{
    ENTER(cuModuleLoadData)
    unsigned magic;

    memcpy(&magic, image, sizeof magic);
    if (magic != 0xBA55ED50u && magic != 0x464C457Fu) { /* fatbin, ELF */
        return INVALID_IMAGE;
    }
    *handle = new module{current()};
    return SUCCESS;
}

API
cuModuleUnload(void *handle)
{
    ENTER(cuModuleUnload)
    delete static_cast<module *>(handle);
    return SUCCESS;
}

API
cuModuleGetFunction(void **handle, void *in, const char *name)
{
    ENTER(cuModuleGetFunction)
    static std::map<std::pair<context *, std::string>, function> functions;
    const auto found = kernels().find(name);
    context *owner = static_cast<module *>(in)->owner;

    if (found == kernels().end()) {
        return NOT_FOUND;
    }
    if (owner != current()) {
        return INVALID_HANDLE;
    }
    function &f = functions[{owner, name}];
    f.what = &found->second;
    f.owner = owner;
    if (f.max_shared_bytes == 0) {
        f.max_shared_bytes = 48 * 1024;
    }
    *handle = &f;
    return SUCCESS;
}

API
cuFuncSetAttribute(void *handle, int attribute, int value)
{
    ENTER(cuFuncSetAttribute)
    if (attribute != 8 || value > number("CUEMU_SHARED", MAX_SHARED_BYTES)) {
        return INVALID_VALUE;
    }
    static_cast<function *>(handle)->max_shared_bytes = value;
    return SUCCESS;
}

API
cuMemAlloc_v2(uintptr_t *address, size_t n_byte)
{
    ENTER(cuMemAlloc_v2)
    return allocate_device(address, n_byte);
}

API
cuMemFree_v2(uintptr_t address)
{
    ENTER(cuMemFree_v2)
    run_everything();
    return free_device(address);
}

API
cuMemAllocAsync(uintptr_t *address, size_t n_byte, void *on)
{
    ENTER(cuMemAllocAsync)
    return is_stream(on) ? allocate_device(address, n_byte) : INVALID_HANDLE;
}

API
cuMemFreeAsync(uintptr_t address, void *on)
{
    ENTER(cuMemFreeAsync)
    if (!is_stream(on)) {
        return INVALID_HANDLE;
    }
    if (device_memory.count(address) == 0) {
        return INVALID_VALUE;
    }
    enqueue(on, [address] { free_device(address); });
    return SUCCESS;
}

API
cuMemAllocHost_v2(void **memory, size_t n_byte)
{
    ENTER(cuMemAllocHost_v2)
    *memory = allocate(n_byte, 0xAB);
    if (*memory == nullptr) {
        return OUT_OF_MEMORY;
    }
    pinned_memory[reinterpret_cast<uintptr_t>(*memory)] = n_byte;
    return SUCCESS;
}

API
cuMemFreeHost(void *memory)
{
    ENTER(cuMemFreeHost)
    const auto block = pinned_memory.find(reinterpret_cast<uintptr_t>(memory));

    if (block == pinned_memory.end()) {
        return INVALID_VALUE;
    }
    run_everything();
    release(block->first, block->second);
    pinned_memory.erase(block);
    return SUCCESS;
}

/* Pageable memory is read before the call returns; pinned memory when its turn comes.
 */
API
cuMemcpyHtoDAsync_v2(uintptr_t to, const void *from, size_t n_byte, void *on)
{
    ENTER(cuMemcpyHtoDAsync_v2)
    if (!is_stream(on)) {
        return INVALID_HANDLE;
    }
    if (!is_inside(device_memory, to, n_byte)) {
        return INVALID_VALUE;
    }
    if (is_inside(pinned_memory, reinterpret_cast<uintptr_t>(from), n_byte)) {
        enqueue(on, [=] { memcpy(reinterpret_cast<void *>(to), from, n_byte); });
        return SUCCESS;
    }
    const char *bytes = static_cast<const char *>(from);
    std::vector<char> copy(bytes, bytes + n_byte);
    enqueue(on, [=] { memcpy(reinterpret_cast<void *>(to), copy.data(), n_byte); });
    return SUCCESS;
}

API
cuMemcpyDtoHAsync_v2(void *to, uintptr_t from, size_t n_byte, void *on)
{
    ENTER(cuMemcpyDtoHAsync_v2)
    if (!is_stream(on)) {
        return INVALID_HANDLE;
    }
    if (!is_inside(device_memory, from, n_byte)) {
        return INVALID_VALUE;
    }
    enqueue(on, [=] { memcpy(to, reinterpret_cast<void *>(from), n_byte); });
    if (!is_inside(pinned_memory, reinterpret_cast<uintptr_t>(to), n_byte)) {
        run_all(*stream_of(on));
    }
    return SUCCESS;
}

API
cuMemsetD8Async(uintptr_t to, unsigned char value, size_t n_byte, void *on)
{
    ENTER(cuMemsetD8Async)
    if (!is_stream(on)) {
        return INVALID_HANDLE;
    }
    if (!is_inside(device_memory, to, n_byte)) {
        return INVALID_VALUE;
    }
    enqueue(on, [=] { memset(reinterpret_cast<void *>(to), value, n_byte); });
    return SUCCESS;
}

API
cuStreamCreate(void **handle, unsigned)
{
    ENTER(cuStreamCreate)
    stream *made = new stream;

    streams.insert(made);
    *handle = made;
    return SUCCESS;
}

API
cuStreamDestroy_v2(void *handle)
{
    ENTER(cuStreamDestroy_v2)
    if (streams.count(static_cast<stream *>(handle)) == 0) {
        return INVALID_HANDLE;
    }
    run_all(*static_cast<stream *>(handle));
    streams.erase(static_cast<stream *>(handle));
    delete static_cast<stream *>(handle);
    return SUCCESS;
}

API
cuStreamSynchronize(void *handle)
{
    ENTER(cuStreamSynchronize)
    if (!is_stream(handle)) {
        return INVALID_HANDLE;
    }
    if (is_legacy(stream_of(handle))) {
        run_everything();
    }
    run_all(*stream_of(handle));
    check_guards();
    return current()->sticky;
}

API
cuStreamWaitEvent(void *handle, void *what, unsigned)
{
    ENTER(cuStreamWaitEvent)
    const event e = *static_cast<event *>(what);

    if (!is_stream(handle)) {
        return INVALID_HANDLE;
    }
    enqueue(handle, [e] {
        if (e.on != nullptr) {
            run_until(*e.on, e.after);
        }
    });
    return SUCCESS;
}

API
cuEventCreate(void **handle, unsigned)
{
    ENTER(cuEventCreate)
    *handle = new event;
    return SUCCESS;
}

API
cuEventDestroy_v2(void *handle)
{
    ENTER(cuEventDestroy_v2)
    delete static_cast<event *>(handle);
    return SUCCESS;
}

API
cuEventRecord(void *handle, void *on)
{
    ENTER(cuEventRecord)
    if (!is_stream(on)) {
        return INVALID_HANDLE;
    }
    stream *s = stream_of(on);
    event &e = *static_cast<event *>(handle);
    const std::shared_ptr<double> at_ms = e.at_ms;
    enqueue(on, [at_ms] { *at_ms = clock_ms; });
    e.on = s;
    e.after = s->n_done + s->todo.size();
    return SUCCESS;
}

API
cuEventElapsedTime(float *milliseconds, void *begin, void *end)
{
    ENTER(cuEventElapsedTime)
    const event &b = *static_cast<event *>(begin), &e = *static_cast<event *>(end);

    if (b.on == nullptr || e.on == nullptr) {
        return INVALID_HANDLE;
    }
    if (b.on->n_done < b.after || e.on->n_done < e.after) {
        return NOT_READY;
    }
    *milliseconds = static_cast<float>(*e.at_ms - *b.at_ms);
    return SUCCESS;
}

API
cuStreamIsCapturing(void *handle, int *status)
{
    ENTER(cuStreamIsCapturing)
    if (!is_stream(handle)) {
        return INVALID_HANDLE;
    }
    *status = number("CUEMU_CAPTURING", 0);
    return SUCCESS;
}

API
cuEventSynchronize(void *handle)
{
    ENTER(cuEventSynchronize)
    const event &e = *static_cast<event *>(handle);

    if (e.on != nullptr) {
        run_until(*e.on, e.after);
    }
    return current()->sticky;
}

API
cuPointerGetAttribute(void *value, int attribute, uintptr_t address)
{
    CALLED(cuPointerGetAttribute)
    if (attribute != 9 || allocation_of(address) == 0) {
        return INVALID_VALUE;
    }
    *static_cast<int *>(value) = memory_device[allocation_of(address)];
    return SUCCESS;
}

API
cuGetErrorName(int code, const char **name)
{
    static const std::map<int, const char *> names = {
            {SUCCESS, "CUDA_SUCCESS"},
            {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
            {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
            {NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
            {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
            {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
            {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
            {CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
            {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"},
    };
    const auto found = names.find(code);

    *name = found == names.end() ? nullptr : found->second;
    return found == names.end() ? INVALID_VALUE : SUCCESS;
}

API
cuLaunchKernel(void *handle, unsigned grid_x, unsigned grid_y, unsigned grid_z,
        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
        void *on, void **params, void **)
{
    ENTER(cuLaunchKernel)
    const function &f = *static_cast<function *>(handle);
    const cuemu_dim3 grid = {grid_x, grid_y, grid_z};
    const cuemu_dim3 block = {block_x, block_y, block_z};
    char name[160];

    if (!is_stream(on) || f.owner != current()) {
        return INVALID_HANDLE;
    }
    if (!are_legal(grid, block) ||
            static_cast<int>(shared_bytes) > f.max_shared_bytes) {
        return INVALID_VALUE;
    }
    snprintf(name, sizeof name, "%s %p", f.what->name.c_str(), on);
    launches.push_back(name);
    /* Parameters are copied at the launch, as the driver does. */
    const char *bytes = static_cast<const char *>(params[0]);
    std::vector<char> copy(bytes, bytes + f.what->param_bytes);
    enqueue(on, [=, &f] {
        launch(f, {f.what->name.c_str(), f.what->run, copy.data(), grid, block,
                          shared_bytes});
    });
    return SUCCESS;
}
