/* full_memory.h - allocation that fails on demand, for one file a program. The linker
 * sends every allocation of the tested files here (tests/test_c.py sees to it): while
 * memory_is_full all fail; the one after n_until_failure more does, none while that is
 * negative. */
#ifndef PF_TEST_FULL_MEMORY_H
#define PF_TEST_FULL_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

static bool memory_is_full;
static atomic_long n_until_failure = -1;

static bool
fails_now(void)
{
    return memory_is_full || (atomic_load(&n_until_failure) >= 0 &&
                                     atomic_fetch_sub(&n_until_failure, 1) == 0);
}

void *__real_malloc(size_t n_byte);
void *__real_calloc(size_t n, size_t item_bytes);
void *__real_realloc(void *old, size_t n_byte);
void *__real_aligned_alloc(size_t alignment, size_t n_byte);
void *__wrap_malloc(size_t n_byte);
void *__wrap_calloc(size_t n, size_t item_bytes);
void *__wrap_realloc(void *old, size_t n_byte);
void *__wrap_aligned_alloc(size_t alignment, size_t n_byte);

void *
__wrap_malloc(size_t n_byte)
{
    return fails_now() ? NULL : __real_malloc(n_byte);
}

void *
__wrap_calloc(size_t n, size_t item_bytes)
{
    return fails_now() ? NULL : __real_calloc(n, item_bytes);
}

void *
__wrap_realloc(void *old, size_t n_byte)
{
    return fails_now() ? NULL : __real_realloc(old, n_byte);
}

void *
__wrap_aligned_alloc(size_t alignment, size_t n_byte)
{
    return fails_now() ? NULL : __real_aligned_alloc(alignment, n_byte);
}

#endif /* PF_TEST_FULL_MEMORY_H */
