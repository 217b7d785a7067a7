/* full_memory.h - allocation that fails on demand, for one file a program. The linker
 * must wrap malloc and calloc; without it __real_malloc is NULL. */
#ifndef PF_TEST_FULL_MEMORY_H
#define PF_TEST_FULL_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

static bool memory_is_full;

void *__real_malloc(size_t n_bytes) __attribute__((weak));
void *__real_calloc(size_t n_item, size_t n_bytes) __attribute__((weak));
void *__wrap_malloc(size_t n_bytes);
void *__wrap_calloc(size_t n_item, size_t n_bytes);

void *
__wrap_malloc(size_t n_bytes)
{
    return memory_is_full ? NULL : __real_malloc(n_bytes);
}

void *
__wrap_calloc(size_t n_item, size_t n_bytes)
{
    return memory_is_full ? NULL : __real_calloc(n_item, n_bytes);
}

#endif /* PF_TEST_FULL_MEMORY_H */
