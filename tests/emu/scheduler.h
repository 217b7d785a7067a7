/* scheduler.h - runs the threads of one block as fibers; what driver.cpp and trace.cpp
 * need of it. */
#ifndef CUEMU_SCHEDULER_H
#define CUEMU_SCHEDULER_H

#include "cuemu.h"
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

#include <cstddef>
#include <cstdint>

struct cuemu_launch {
    const char *name;
    void (*run)(const void *params);
    const void *params;
    cuemu_dim3 grid, block;
    size_t shared_bytes;
};

/* Every block, one after the other. NULL, or what is wrong with the kernel. The order
 * of the threads follows CUEMU_ORDER: "f" forward (default), "r" reversed, "s<seed>"
 * shuffled anew for every block. */
const char *cuemu_run(const cuemu_launch &launch);

/* The running thread; -1 outside of a kernel. */
int cuemu_thread_index(void);

/* Where shared memory is. */
uintptr_t cuemu_shared_begin(void);
size_t cuemu_shared_bytes(void);

/* Whether an address lies in allocated device memory (driver.cpp). */
bool cuemu_is_device(uintptr_t address);

/* What the tracer (or nothing, without one) wants to know. */
void cuemu_trace_block(unsigned n_thread, size_t shared_bytes);
void cuemu_trace_block_barrier(void);
void cuemu_trace_warp_barrier(unsigned warp);
void cuemu_trace_block_end(void);

#endif /* CUEMU_SCHEDULER_H */
