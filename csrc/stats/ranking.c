/* ranking.c - see ranking.h. */
#include "stats/ranking.h"
#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool
ranking_is_sound(const pf_ranking *ranking)
{
    return ranking->n_item <= INT32_MAX;
}

/* one past the last item with the score of item first */
static size_t
score_end(const pf_ranking *ranking, size_t first)
{
    size_t end = first + 1;

    while (end < ranking->n_item && ranking->begins_score[end] == 0) {
        end++;
    }
    return end;
}

/* Twice the items below, ties as one half, are those below the score of an item and
 * those up to it; the first are known going up, the second going down. */
pf_status
pf_ranking_placements(const pf_ranking *ranking, int64_t *placement2)
{
    int64_t n_positive = 0; /* up to the item before, or, going down, up to this one */
    int64_t n_negative = 0;
    int64_t other_positive = 0; /* up to the scores below, then up to this score */
    int64_t other_negative = 0;

    if (!ranking_is_sound(ranking)) {
        return PF_EINVAL;
    }
    for (size_t i = 0; i < ranking->n_item; i++) {
        const bool positive = ranking->is_positive[i] != 0;
        const bool begins = i == 0 || ranking->begins_score[i] != 0;

        other_positive = begins ? n_positive : other_positive;
        other_negative = begins ? n_negative : other_negative;
        placement2[i] = positive ? other_negative : other_positive;
        n_positive += positive;
        n_negative += !positive;
    }
    other_positive = n_positive;
    other_negative = n_negative;
    for (size_t i = ranking->n_item; i-- > 0;) {
        const bool positive = ranking->is_positive[i] != 0;
        const bool begins = i == 0 || ranking->begins_score[i] != 0;

        placement2[i] += positive ? other_negative : other_positive;
        n_positive -= positive;
        n_negative -= !positive;
        other_positive = begins ? n_positive : other_positive;
        other_negative = begins ? n_negative : other_negative;
    }
    return PF_OK;
}

/*
 * Items that cannot be told apart by their place in the ranking share a bin: bin 2 g
 * holds negatives and bin 2 g + 1 the positives that follow them before the next
 * negative, or that have the same score. weight[g] is what a pair inside group g
 * counts, in halves: 2 when the positives are above, 1 when they are tied.
 */
typedef struct bin_map {
    uint32_t *bin; /* of each item */
    uint32_t *count;
    uint8_t *weight;
    size_t n_group;
} bin_map;

static void
bin_map_free(bin_map *map)
{
    free(map->bin);
    free(map->count);
    free(map->weight);
    *map = (bin_map){0};
}

/* the group of a block of equal scores with n_here negatives and positives */
static size_t
place_block(bin_map *map, const size_t *n_here, bool *has_positive)
{
    const bool mixed = n_here[0] > 0 && n_here[1] > 0;

    if (map->n_group == 0 || mixed || (n_here[0] > 0 && *has_positive) ||
            map->weight[map->n_group - 1] == 1) {
        map->weight[map->n_group++] = mixed ? 1 : 2;
        *has_positive = false;
    }
    *has_positive = *has_positive || n_here[1] > 0;
    return map->n_group - 1;
}

static pf_status
bin_map_init(bin_map *map, const pf_ranking *ranking)
{
    bool has_positive = false;
    size_t end;

    *map = (bin_map){0};
    map->bin = calloc(ranking->n_item, sizeof *map->bin);
    map->count = calloc(ranking->n_item, 2 * sizeof *map->count);
    map->weight = calloc(ranking->n_item, sizeof *map->weight);
    if (map->bin == NULL || map->count == NULL || map->weight == NULL) {
        bin_map_free(map);
        return PF_ENOMEM;
    }
    for (size_t first = 0; first < ranking->n_item; first = end) {
        size_t n_here[2] = {0};
        size_t group;

        end = score_end(ranking, first);
        for (size_t i = first; i < end; i++) {
            n_here[ranking->is_positive[i] != 0]++;
        }
        group = place_block(map, n_here, &has_positive);
        for (size_t i = first; i < end; i++) {
            map->bin[i] = (uint32_t)(2 * group + (ranking->is_positive[i] != 0));
        }
    }
    return PF_OK;
}

/* as many items as there are, drawn with replacement and counted by bin */
static void
draw_bins(bin_map *map, size_t n_item, pf_rng rng)
{
    enum { CHUNK = 256 };
    const uint32_t *PF_RESTRICT bin = map->bin;
    uint32_t *PF_RESTRICT count = map->count;
    uint32_t index[CHUNK];

    memset(map->count, 0, 2 * map->n_group * sizeof *map->count);
    for (size_t first = 0; first < n_item; first += CHUNK) {
        const size_t n_draw = n_item - first < CHUNK ? n_item - first : CHUNK;

        pf_rng_indices(&rng, (uint32_t)n_item, n_draw, index);
        for (size_t i = 0; i < n_draw; i++) {
            count[bin[index[i]]]++;
        }
    }
}

static double
binned_area(const bin_map *map)
{
    uint64_t n_negative = 0;
    uint64_t n_positive = 0;
    uint64_t halves = 0;

    for (size_t g = 0; g < map->n_group; g++) {
        const uint64_t below = map->count[2 * g];
        const uint64_t above = map->count[2 * g + 1];

        halves += above * (2 * n_negative + map->weight[g] * below);
        n_negative += below;
        n_positive += above;
    }
    if (n_negative == 0 || n_positive == 0) {
        return (double)NAN;
    }
    return (double)halves / (2.0 * (double)n_negative * (double)n_positive);
}

pf_status
pf_ranking_bootstrap(
        const pf_ranking *ranking, uint64_t seed, size_t n_resample, double *area)
{
    bin_map map;
    pf_status st;

    if (!ranking_is_sound(ranking) || ranking->n_item == 0) {
        return PF_EINVAL;
    }
    st = bin_map_init(&map, ranking);
    if (st != PF_OK) {
        return st;
    }
    for (size_t r = 0; r < n_resample; r++) {
        draw_bins(&map, ranking->n_item, pf_rng_stream(seed, r));
        area[r] = binned_area(&map);
    }
    bin_map_free(&map);
    return PF_OK;
}
