// uses: video
/* test_source.c - reading files and memory, what counts as the same file, digests. */
#include "check.h"

#include "video/compat.h"
#include "video/digest.h"
#include "video/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const pf_limits no_limits = {1, 1, 1, 0, 0.0};

static int
stop(void *arg)
{
    int *n_left = arg;

    return (*n_left)-- <= 0;
}

/* Every read and seek of a cursor against the bytes themselves. */
static void
check_reading(pf_cursor *cursor, const uint8_t *data, int64_t n_byte)
{
    uint8_t buffer[64 + 2];
    int64_t n_wrong = 0;

    CHECK(pf_cursor_seek(cursor, 0, AVSEEK_SIZE) == n_byte);
    for (int64_t at = 0; at <= n_byte + 3; at++) {
        for (int want = 1; want <= 64; want += 21) {
            const int64_t left = at < n_byte ? n_byte - at : 0;
            const int expect = (int)(left < want ? left : want);
            int got;

            memset(buffer, 0xa5, sizeof buffer);
            n_wrong += pf_cursor_seek(cursor, at, SEEK_SET) != at;
            got = pf_cursor_read(cursor, buffer + 1, want);
            n_wrong += got != (expect > 0 ? expect : AVERROR_EOF);
            n_wrong += expect > 0 && memcmp(buffer + 1, data + at, (size_t)expect) != 0;
            n_wrong += buffer[0] != 0xa5 || buffer[1 + expect] != 0xa5;
            n_wrong += pf_cursor_seek(cursor, 0, SEEK_CUR) != at + expect;
        }
    }
    CHECK(n_wrong == 0);
    CHECK(pf_cursor_seek(cursor, -1, SEEK_END) == n_byte - 1);
    CHECK(pf_cursor_seek(cursor, 0, SEEK_END | AVSEEK_FORCE) == n_byte);
    CHECK(pf_cursor_seek(cursor, -1, SEEK_SET) < 0);
    CHECK(pf_cursor_seek(cursor, -n_byte - 1, SEEK_END) < 0);
    CHECK(pf_cursor_seek(cursor, INT64_MAX, SEEK_CUR) < 0);
    CHECK(pf_cursor_seek(cursor, 0, 17) < 0);
    CHECK(pf_cursor_seek(cursor, 0, SEEK_CUR) == n_byte); /* where it was */
}

static void
write_file(const char *path, const uint8_t *data, size_t n_byte)
{
    FILE *file = fopen(path, "wb");

    CHECK(file != NULL && fwrite(data, 1, n_byte, file) == n_byte);
    CHECK(file != NULL && fclose(file) == 0);
}

static void
test_files_and_memory_read_alike(void)
{
    enum { N_BYTE = 131 };
    uint8_t *data = malloc(N_BYTE); /* of that size, so that ASan sees an overrun */
    pf_source memory = {.name = "data", .data = data, .n_byte = N_BYTE};
    pf_source file = {.name = "source.bin"};
    pf_video_error error = {0};
    pf_cursor cursor;

    for (int i = 0; i < N_BYTE; i++) {
        data[i] = (uint8_t)(i * 7 + 1);
    }
    write_file(file.name, data, N_BYTE);
    CHECK(pf_cursor_open(&cursor, &memory, &no_limits, NULL, &error) == PF_OK);
    CHECK(!cursor.stamp.known);
    check_reading(&cursor, data, N_BYTE);
    pf_cursor_close(&cursor);
    CHECK(pf_cursor_open(&cursor, &file, &no_limits, NULL, &error) == PF_OK);
    CHECK(cursor.stamp.known && cursor.stamp.n_byte == N_BYTE);
    check_reading(&cursor, data, N_BYTE);
    file.stamp = cursor.stamp;
    pf_cursor_close(&cursor);
    pf_cursor_close(&cursor); /* once more does no harm */

    CHECK(pf_cursor_open(&cursor, &file, &no_limits, NULL, &error) == PF_OK);
    pf_cursor_close(&cursor);
    write_file(file.name, data, N_BYTE - 1);
    CHECK(pf_cursor_open(&cursor, &file, &no_limits, NULL, &error) == PF_EDATA);
    CHECK(strstr(error.reason, "changed") != NULL);
    pf_cursor_close(&cursor);
    free(data);
}

static void
test_what_cannot_be_opened_says_why(void)
{
    const uint8_t data[2] = {1, 2};
    const pf_limits one_byte = {1, 1, 1, 1, 0.0};
    const pf_source missing = {.name = "nothing.bin"};
    const pf_source folder = {.name = "."};
    const pf_source device = {.name = "/dev/null"};
    const pf_source empty = {.name = "data", .data = data};
    const pf_source two = {.name = "data", .data = data, .n_byte = 2};
    pf_video_error error = {0};
    pf_cursor cursor;

    CHECK(pf_cursor_open(&cursor, &missing, &no_limits, NULL, &error) == PF_EIO);
    CHECK(error.errno_code != 0);
    pf_cursor_close(&cursor);
    CHECK(pf_cursor_open(&cursor, &folder, &no_limits, NULL, &error) == PF_EDATA);
    CHECK(strcmp(error.reason, "it is a directory") == 0);
    pf_cursor_close(&cursor);
    CHECK(pf_cursor_open(&cursor, &device, &no_limits, NULL, &error) == PF_EDATA);
    pf_cursor_close(&cursor);
    CHECK(pf_cursor_open(&cursor, &empty, &no_limits, NULL, &error) == PF_EDATA);
    pf_cursor_close(&cursor);
    CHECK(pf_cursor_open(&cursor, &two, &one_byte, NULL, &error) == PF_EOVERFLOW);
    CHECK(strcmp(error.beyond.limit, "max_bytes") == 0);
    CHECK(error.beyond.allowed == 1.0 && error.beyond.found == 2.0);
    pf_cursor_close(&cursor);
}

static void
test_a_poll_stops_reading_for_good(void)
{
    const uint8_t data[8] = {0};
    const pf_source source = {.name = "data", .data = data, .n_byte = 8};
    int n_left = 2;
    const pf_poll poll = {stop, &n_left};
    pf_video_error error = {0};
    pf_cursor cursor;
    uint8_t byte;

    CHECK(pf_cursor_open(&cursor, &source, &no_limits, &poll, &error) == PF_OK);
    CHECK(pf_cursor_read(&cursor, &byte, 1) == 1);
    CHECK(pf_cursor_read(&cursor, &byte, 1) == 1);
    CHECK(pf_cursor_read(&cursor, &byte, 1) == AVERROR_EXIT);
    n_left = 5; /* a signal is told only once */
    CHECK(pf_cursor_read(&cursor, &byte, 1) == AVERROR_EXIT);
    CHECK(cursor.stopped && n_left == 5); /* not asked again */
    pf_cursor_close(&cursor);
}

static void
test_digests_tell_every_bit(void)
{
    enum { MOST = 41 };
    int64_t n_same = 0;

    for (size_t n_byte = 0; n_byte <= MOST; n_byte++) {
        uint8_t *data = calloc(n_byte > 0 ? n_byte : 1, 1);
        const uint64_t zeros = pf_digest(data, n_byte);

        n_same +=
                zeros != pf_digest(data, n_byte); /* the same bytes, the same digest */
        for (size_t bit = 0; bit < 8 * n_byte; bit++) {
            data[bit / 8] ^= (uint8_t)(1 << bit % 8);
            n_same += pf_digest(data, n_byte) == zeros;
            data[bit / 8] = 0;
        }
        n_same += n_byte > 0 && pf_digest(data, n_byte - 1) == zeros;
        free(data);
    }
    CHECK(n_same == 0);
}

int
main(void)
{
    test_files_and_memory_read_alike();
    test_what_cannot_be_opened_says_why();
    test_a_poll_stops_reading_for_good();
    test_digests_tell_every_bit();
    return check_report("source");
}
