/* cues.c - the order of cues, duplicates and missing ends. */
#include "video/cues.h"

#include <stdlib.h>
#include <string.h>

pf_status
pf_cues_add(pf_cues *cues, int64_t start_us, int64_t end_us, size_t text_at)
{
    pf_cue *cue;

    if (text_at > cues->text.n_byte) {
        return PF_EINVAL;
    }
    if (text_at == cues->text.n_byte) {
        cues->n_seen++;
        cues->n_empty++;
        return PF_OK;
    }
    if (cues->n_cue == cues->n_cue_room) {
        const size_t room = cues->n_cue_room > 0 ? 2 * cues->n_cue_room : 64;
        size_t n_byte;

        if (!pf_mul_size(room, sizeof *cues->cue, &n_byte)) {
            return PF_EOVERFLOW;
        }
        cue = realloc(cues->cue, n_byte);
        if (cue == NULL) {
            return PF_ENOMEM;
        }
        cues->cue = cue;
        cues->n_cue_room = room;
    }
    cues->cue[cues->n_cue++] = (pf_cue){.start_us = start_us,
            .end_us = end_us > start_us ? end_us : PF_CUE_NO_END,
            .end_stated = end_us > start_us,
            .place = cues->n_seen++,
            .text_at = text_at,
            .text_bytes = cues->text.n_byte - text_at};
    return PF_OK;
}

static int
compare(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

static int
by_start(const void *a, const void *b)
{
    const pf_cue *one = a;
    const pf_cue *two = b;
    const int order = compare(one->start_us, two->start_us);

    return order != 0 ? order : compare(one->place, two->place);
}

/* 0 for duplicates */
static int
compare_content(const pf_cue *one, const pf_cue *two)
{
    int order = compare(one->start_us, two->start_us);

    if (order == 0) {
        order = compare(one->end_us, two->end_us);
    }
    if (order == 0) {
        order = compare((int64_t)one->text_bytes, (int64_t)two->text_bytes);
    }
    return order != 0 ? order : memcmp(one->text, two->text, one->text_bytes);
}

static int
by_content(const void *a, const void *b)
{
    const int order = compare_content(a, b);

    return order != 0 ? order
                      : compare(((const pf_cue *)a)->place, ((const pf_cue *)b)->place);
}

static void
drop_duplicates(pf_cues *cues)
{
    size_t n_kept = 1;

    qsort(cues->cue, cues->n_cue, sizeof *cues->cue, by_content);
    for (size_t i = 1; i < cues->n_cue; i++) {
        if (compare_content(&cues->cue[n_kept - 1], &cues->cue[i]) == 0) {
            cues->n_duplicate++;
        }
        else {
            cues->cue[n_kept++] = cues->cue[i];
        }
    }
    cues->n_cue = n_kept;
}

void
pf_cues_finish(pf_cues *cues)
{
    int64_t later_us = INT64_MAX; /* the next start that is not the same */

    if (cues->n_cue == 0) {
        return;
    }
    for (size_t i = 0; i < cues->n_cue; i++) {
        cues->cue[i].text = cues->text.data + cues->cue[i].text_at;
    }
    drop_duplicates(cues);
    qsort(cues->cue, cues->n_cue, sizeof *cues->cue, by_start);
    for (size_t i = cues->n_cue; i-- > 0;) {
        pf_cue *cue = &cues->cue[i];

        if (i + 1 < cues->n_cue && cue[1].start_us > cue->start_us) {
            later_us = cue[1].start_us;
        }
        if (!cue->end_stated) {
            const int64_t most_us = cue->start_us + PF_CUE_MOST_US;

            cue->end_us = later_us < most_us ? later_us : most_us;
        }
    }
}

void
pf_cues_free(pf_cues *cues)
{
    free(cues->cue);
    pf_text_free(&cues->text);
    *cues = (pf_cues){0};
}
