/* check.h - the whole framework of the plain-C tests: CHECK counts, main returns. */
#ifndef PF_TEST_CHECK_H
#define PF_TEST_CHECK_H

#include <stdio.h>

static int n_check;
static int n_failed;

#define CHECK(condition)                                                               \
    do {                                                                               \
        n_check++;                                                                     \
        if (!(condition)) {                                                            \
            n_failed++;                                                                \
            fprintf(stderr, "%s:%d: CHECK(%s) failed\n", __FILE__, __LINE__,           \
                    #condition);                                                       \
        }                                                                              \
    } while (0)

static inline int
check_report(const char *name)
{
    printf("%s: %d checks, %d failed\n", name, n_check, n_failed);
    return n_failed == 0 ? 0 : 1;
}

#endif /* PF_TEST_CHECK_H */
