/* plan.c - from frame indices to runs of packets. */
#include "video/plan.h"

#include <stdlib.h>

enum {
    MAX_REFERENCES = 16, /* pictures a decoder holds, H.264 and HEVC alike */
};

static int
compare_starts(const void *a, const void *b)
{
    const pf_target *x = a;
    const pf_target *y = b;

    if (x->start != y->start) {
        return x->start < y->start ? -1 : 1;
    }
    if (x->key != y->key) {
        return x->key < y->key ? -1 : 1;
    }
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

static int
compare_targets(const void *a, const void *b)
{
    const pf_target *x = a;
    const pf_target *y = b;

    if (x->key != y->key) {
        return x->key < y->key ? -1 : 1;
    }
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

/* Where decoding must begin for the picture of one packet: the last entry point before
 * it, or, for a picture shown before that entry point's own (a leading picture of an
 * open GOP), one far enough back that every picture it may refer to is whole. */
static int64_t
start_of(const pf_index *index, int64_t wanted)
{
    const pf_packet *packet = index->packet;
    int64_t at = wanted;
    int n_reference = 0;

    while (at > 0 && (packet[at].flags & PF_PACKET_STARTS) == 0) {
        at--;
    }
    if (packet[wanted].rank >= packet[at].rank) {
        return at;
    }
    while (at > 0 && (packet[at].flags & PF_PACKET_RESETS) == 0) {
        at--;
        n_reference += (packet[at].flags & PF_PACKET_UNREFERENCED) == 0;
        if ((packet[at].flags & PF_PACKET_STARTS) != 0 &&
                n_reference > MAX_REFERENCES) {
            break;
        }
    }
    return at;
}

static int
compare_lengths(const void *a, const void *b)
{
    const pf_run *x = a;
    const pf_run *y = b;
    const int64_t x_length = x->last - x->first;
    const int64_t y_length = y->last - y->first;

    if (x_length != y_length) {
        return x_length > y_length ? -1 : 1;
    }
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Groups the sorted targets into runs. */
static void
group(pf_plan *plan, const pf_index *index, bool joined)
{
    pf_run *run = NULL;

    for (size_t i = 0; i < plan->n_target; i++) {
        const pf_target *target = &plan->target[i];
        const bool same =
                run != NULL && (target->start == run->first ||
                                       (joined && target->start <= run->last + 1));

        if (!same) {
            run = &plan->run[plan->n_run++];
            *run = (pf_run){target->start, target->key, 0, i, 0};
            run->first_rank = index->packet[target->start].rank;
        }
        run->n_target++;
        if (target->key > run->last) {
            run->last = target->key;
        }
    }
    for (size_t k = 0; k < plan->n_run; k++) {
        qsort(plan->target + plan->run[k].first_target, plan->run[k].n_target,
                sizeof *plan->target, compare_targets);
    }
}

/* From the last packet of a run back: a packet is needed for a target in it, for a
 * slot that a needed one reads, or because a needed one relies on it. Where slots are
 * not known, every picture that may be referred to is. */
static void
mark_needed(pf_plan *plan, const pf_index *index, const pf_run *run)
{
    uint32_t slots = 0;
    bool relied = false;

    for (int64_t i = run->last; i >= run->first; i--) {
        const pf_packet *packet = &index->packet[i];
        const bool knows_slots = (packet->flags & PF_PACKET_SLOTS) != 0;
        const bool referred = knows_slots
                                      ? relied || (packet->stored_slots & slots) != 0
                                      : (packet->flags & PF_PACKET_UNREFERENCED) == 0;

        if (!referred && pf_plan_find(plan, run, i) == NULL) {
            continue;
        }
        plan->is_needed[i] = 1;
        slots = knows_slots
                        ? (slots & ~(uint32_t)packet->stored_slots) | packet->read_slots
                        : 0xff;
        relied = (packet->flags & PF_PACKET_RELIES) != 0;
    }
}

pf_status
pf_plan_make(pf_plan *plan, const pf_index *index, const int64_t *frame, size_t n_slot,
        bool sequential, bool joined)
{
    *plan = (pf_plan){.n_target = n_slot, .by_place = index->counted};
    if (n_slot == 0) {
        return PF_OK;
    }
    plan->target = calloc(n_slot, sizeof *plan->target);
    plan->run = calloc(n_slot, sizeof *plan->run);
    if (plan->target == NULL || plan->run == NULL) {
        pf_plan_free(plan);
        return PF_ENOMEM;
    }
    sequential = sequential || index->counted;
    for (size_t i = 0; i < n_slot; i++) {
        pf_target *target = &plan->target[i];

        if (frame[i] < 0 || frame[i] >= index->n_frame) {
            pf_plan_free(plan);
            return PF_EINVAL;
        }
        target->slot = i;
        target->key = index->counted ? frame[i] : index->frame_packet[frame[i]];
        target->start = sequential ? 0 : start_of(index, target->key);
    }
    qsort(plan->target, n_slot, sizeof *plan->target, compare_starts);
    group(plan, index, joined || sequential);
    if (sequential) {
        plan->run[0].last = index->n_packet - 1; /* ends when all targets came */
        plan->run[0].first_rank = INT64_MIN;
        return PF_OK;
    }
    plan->is_needed = calloc((size_t)index->n_packet, 1);
    if (plan->is_needed == NULL) {
        pf_plan_free(plan);
        return PF_ENOMEM;
    }
    for (size_t k = 0; k < plan->n_run; k++) {
        mark_needed(plan, index, &plan->run[k]);
    }
    if (!joined) { /* threads that take the long runs first end together */
        qsort(plan->run, plan->n_run, sizeof *plan->run, compare_lengths);
    }
    return PF_OK;
}

const pf_target *
pf_plan_find(const pf_plan *plan, const pf_run *run, int64_t key)
{
    size_t low = run->first_target;
    size_t high = run->first_target + run->n_target;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (plan->target[middle].key < key) {
            low = middle + 1;
        }
        else {
            high = middle;
        }
    }
    if (low == run->first_target + run->n_target || plan->target[low].key != key) {
        return NULL;
    }
    return &plan->target[low];
}

void
pf_plan_free(pf_plan *plan)
{
    free(plan->target);
    free(plan->run);
    free(plan->is_needed);
    *plan = (pf_plan){0};
}
