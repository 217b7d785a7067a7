/* untraced.cpp - what stands for the tracer in a build without one. */
#include "scheduler.h"

void
cuemu_trace_block(unsigned, size_t)
{
}
void
cuemu_trace_block_barrier(void)
{
}
void
cuemu_trace_warp_barrier(unsigned)
{
}
void
cuemu_trace_block_end(void)
{
}
