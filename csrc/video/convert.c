/* convert.c - colour conversion, by ourselves for YUV and grey of up to 12 bits, by
 * libswscale for everything else and for scaling; then orientation. */
#include "video/convert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <libavutil/pixdesc.h>

enum {
    ALIGN_BYTES = 64,
    SCALER_FLAGS = SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_BITEXACT,
};

void
pf_geometry_orient(pf_geometry *geometry, const int32_t *matrix)
{
    int32_t turned[9];
    double degrees;
    int quarter;
    bool mirrored;

    geometry->quarter_turns = 0;
    geometry->mirrored = false;
    if (matrix == NULL) {
        return;
    }
    memcpy(turned, matrix, sizeof turned);
    /* A negative determinant holds a mirror. */
    mirrored = (double)matrix[0] * matrix[4] - (double)matrix[1] * matrix[3] < 0;
    if (mirrored) {
        av_display_matrix_flip(turned, 1, 0); /* what is left is a pure turn */
    }
    degrees = 720.0 - av_display_rotation_get(turned); /* clockwise, > 0; may be NaN */
    quarter = degrees > 0.0 ? (int)((degrees + 45.0) / 90.0) : 0;
    if (fabs(degrees - 90.0 * quarter) <= 1.0) {
        geometry->quarter_turns = quarter % 4;
        geometry->mirrored = mirrored;
    }
}

int
pf_geometry_width_px(const pf_geometry *geometry)
{
    return geometry->quarter_turns % 2 != 0 ? geometry->stored_height_px
                                            : geometry->stored_width_px;
}

int
pf_geometry_height_px(const pf_geometry *geometry)
{
    return geometry->quarter_turns % 2 != 0 ? geometry->stored_width_px
                                            : geometry->stored_height_px;
}

static pf_status
prepare_scratch(pf_converter *converter, const pf_geometry *geometry)
{
    const size_t width_px = (size_t)geometry->stored_width_px;
    const size_t height_px = (size_t)geometry->stored_height_px;
    size_t row_bytes, n_byte;

    if (!pf_mul_size(width_px, 3, &row_bytes) || row_bytes > INT32_MAX / 2) {
        return PF_EOVERFLOW;
    }
    row_bytes = (row_bytes + 2 * ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    if (!pf_mul_size(row_bytes, height_px + 1, &n_byte)) {
        return PF_EOVERFLOW;
    }
    if (n_byte > converter->scratch_bytes) {
        av_freep(&converter->scratch);
        converter->scratch = av_malloc(n_byte);
        converter->scratch_bytes = converter->scratch == NULL ? 0 : n_byte;
    }
    converter->scratch_row_bytes = (int)row_bytes;
    return converter->scratch == NULL ? PF_ENOMEM : PF_OK;
}

static pf_matrix
matrix_of(enum AVColorSpace matrix)
{
    switch (matrix) {
        case AVCOL_SPC_BT709:
            return PF_MATRIX_BT709;
        case AVCOL_SPC_FCC:
            return PF_MATRIX_FCC;
        case AVCOL_SPC_SMPTE240M:
            return PF_MATRIX_SMPTE240M;
        case AVCOL_SPC_BT2020_NCL:
        case AVCOL_SPC_BT2020_CL:
            return PF_MATRIX_BT2020;
        default: /* BT.601, also when unspecified */
            return PF_MATRIX_BT601;
    }
}

static pf_luma_weights
weights_of(enum AVColorSpace matrix)
{
    static const pf_luma_weights weights[] = {
            [PF_MATRIX_BT601] = {0.299, 0.114},
            [PF_MATRIX_BT709] = {0.2126, 0.0722},
            [PF_MATRIX_BT2020] = {0.2627, 0.0593},
            [PF_MATRIX_FCC] = {0.30, 0.11},
            [PF_MATRIX_SMPTE240M] = {0.212, 0.087},
    };

    return weights[matrix_of(matrix)];
}

const char *
pf_matrix_name(pf_matrix matrix)
{
    static const char *const names[] = {
            [PF_MATRIX_BT601] = "bt601",
            [PF_MATRIX_BT709] = "bt709",
            [PF_MATRIX_BT2020] = "bt2020",
            [PF_MATRIX_FCC] = "fcc",
            [PF_MATRIX_SMPTE240M] = "smpte240m",
    };

    return names[matrix];
}

static bool
is_full_range(const AVFrame *frame, bool is_grey)
{
    switch ((enum AVPixelFormat)frame->format) {
        case AV_PIX_FMT_YUVJ420P:
        case AV_PIX_FMT_YUVJ422P:
        case AV_PIX_FMT_YUVJ444P:
        case AV_PIX_FMT_YUVJ440P:
        case AV_PIX_FMT_YUVJ411P:
            return true;
        default:
            return is_grey || frame->color_range == AVCOL_RANGE_JPEG;
    }
}

/* Describes the frame's Y, U and V; false for layouts that libswscale must read. */
static bool
describe(const AVFrame *frame, pf_component component[3], int *depth)
{
    const AVPixFmtDescriptor *about =
            av_pix_fmt_desc_get((enum AVPixelFormat)frame->format);
    const uint64_t foreign = AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_PAL |
                             AV_PIX_FMT_FLAG_BITSTREAM | AV_PIX_FMT_FLAG_HWACCEL |
                             AV_PIX_FMT_FLAG_BE | AV_PIX_FMT_FLAG_BAYER |
                             AV_PIX_FMT_FLAG_FLOAT;
    int n_component;

    if (about == NULL || (about->flags & foreign) != 0 || about->nb_components < 1) {
        return false;
    }
    n_component = about->nb_components >= 3 ? 3 : 1; /* what is left is alpha */
    *depth = about->comp[0].depth;
    for (int i = 0; i < n_component; i++) {
        const AVComponentDescriptor *c = &about->comp[i];

        if (c->depth != *depth || c->depth < 8 || c->depth > PF_COLOUR_MAX_DEPTH ||
                frame->data[c->plane] == NULL || (c->depth > 8 && c->step < 2) ||
                (c->depth == 8 && c->shift != 0)) {
            return false;
        }
        component[i] = (pf_component){
                .data = frame->data[c->plane] + c->offset,
                .row_bytes = frame->linesize[c->plane],
                .step_bytes = c->step,
                .x_shift = i > 0 ? about->log2_chroma_w : 0,
                .y_shift = i > 0 ? about->log2_chroma_h : 0,
                .value_shift = c->shift,
        };
    }
    return true;
}

/* To dst, tight or padded rows, by colour.c. *done is false when it cannot. */
static pf_status
convert_yuv(pf_converter *converter, const AVFrame *frame, uint8_t *dst,
        ptrdiff_t row_bytes, bool *done)
{
    pf_component component[3] = {{0}, {0}, {0}};
    int depth = 0;
    bool full_range;

    *done = describe(frame, component, &depth);
    if (!*done) {
        return PF_OK;
    }
    full_range = is_full_range(frame, component[1].data == NULL);
    if (converter->colour.depth != depth || converter->matrix != frame->colorspace ||
            converter->full_range != full_range) {
        const pf_status st = pf_colour_init(
                &converter->colour, weights_of(frame->colorspace), full_range, depth);

        if (st != PF_OK) {
            return st;
        }
        converter->matrix = frame->colorspace;
        converter->full_range = full_range;
    }
    for (int y = 0; y < frame->height; y++) {
        pf_colour_row(
                &converter->colour, component, y, frame->width, dst + y * row_bytes);
    }
    return PF_OK;
}

static pf_status
prepare_scaler(
        pf_converter *converter, const AVFrame *frame, const pf_geometry *geometry)
{
    const int *matrix = sws_getCoefficients((int)frame->colorspace);
    const int full_range = frame->color_range == AVCOL_RANGE_JPEG;

    converter->scaler = sws_getCachedContext(converter->scaler, frame->width,
            frame->height, (enum AVPixelFormat)frame->format, geometry->stored_width_px,
            geometry->stored_height_px, AV_PIX_FMT_RGB24, SCALER_FLAGS, NULL, NULL,
            NULL);
    if (converter->scaler == NULL) {
        return PF_EBACKEND;
    }
    /* Refused (-1) only where no YUV is involved, where it has no meaning. */
    (void)sws_setColorspaceDetails(converter->scaler, matrix, full_range,
            sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
    return PF_OK;
}

/* The way over a stored plane on which its samples come upright, in bytes. */
typedef struct upright {
    ptrdiff_t first; /* of the top left corner */
    ptrdiff_t right; /* from one sample to the next */
    ptrdiff_t down;
    ptrdiff_t width;
    ptrdiff_t height;
} upright;

/* Of a plane of width x height samples: turned clockwise, then mirrored. */
static upright
upright_way(const pf_geometry *geometry, ptrdiff_t width, ptrdiff_t height,
        ptrdiff_t step_bytes, ptrdiff_t row_bytes)
{
    const bool is_turned = geometry->quarter_turns % 2 != 0;
    upright way = {.right = step_bytes,
            .down = row_bytes,
            .width = is_turned ? height : width,
            .height = is_turned ? width : height};

    switch (geometry->quarter_turns) {
        case 1:
            way.first = (height - 1) * row_bytes;
            way.right = -row_bytes;
            way.down = step_bytes;
            break;
        case 2:
            way.first = (height - 1) * row_bytes + (width - 1) * step_bytes;
            way.right = -step_bytes;
            way.down = -row_bytes;
            break;
        case 3:
            way.first = (width - 1) * step_bytes;
            way.right = row_bytes;
            way.down = -step_bytes;
            break;
        default:
            break;
    }
    if (geometry->mirrored) {
        way.first += (way.width - 1) * way.right;
        way.right = -way.right;
    }
    return way;
}

/* dst, tight, from padded rows of pixels */
static void
orient(const pf_converter *converter, const pf_geometry *geometry, uint8_t *dst)
{
    const upright way = upright_way(geometry, geometry->stored_width_px,
            geometry->stored_height_px, 3, converter->scratch_row_bytes);

    for (ptrdiff_t y = 0; y < way.height; y++) {
        const uint8_t *src = converter->scratch + way.first + y * way.down;

        for (ptrdiff_t x = 0; x < way.width; x++, src += way.right, dst += 3) {
            dst[0] = src[0];
            dst[1] = src[1];
            dst[2] = src[2];
        }
    }
}

/* To padded rows in the scratch, by libswscale, which stores whole vectors. */
static pf_status
convert_scaled(
        pf_converter *converter, const AVFrame *frame, const pf_geometry *geometry)
{
    uint8_t *plane[4] = {converter->scratch};
    const int row_bytes[4] = {converter->scratch_row_bytes};
    const pf_status st = prepare_scaler(converter, frame, geometry);

    if (st != PF_OK) {
        return st;
    }
    if (sws_scale(converter->scaler, (const uint8_t *const *)frame->data,
                frame->linesize, 0, frame->height, plane,
                row_bytes) != geometry->stored_height_px) {
        return PF_EBACKEND;
    }
    return PF_OK;
}

pf_status
pf_convert(pf_converter *converter, const AVFrame *frame, const pf_geometry *geometry,
        uint8_t *rgb)
{
    const ptrdiff_t tight_row_bytes = 3 * (ptrdiff_t)geometry->stored_width_px;
    const bool turned = geometry->quarter_turns != 0 || geometry->mirrored;
    const bool same_size = frame->width == geometry->stored_width_px &&
                           frame->height == geometry->stored_height_px;
    bool done = false;
    pf_status st = PF_OK;

    if (same_size && !turned) {
        st = convert_yuv(converter, frame, rgb, tight_row_bytes, &done);
    }
    if (st != PF_OK || done) {
        return st;
    }
    st = prepare_scratch(converter, geometry);
    if (st == PF_OK && same_size) {
        st = convert_yuv(converter, frame, converter->scratch,
                converter->scratch_row_bytes, &done);
    }
    if (st == PF_OK && !done) {
        st = convert_scaled(converter, frame, geometry);
    }
    if (st == PF_OK && turned) {
        orient(converter, geometry, rgb);
    }
    for (int y = 0; st == PF_OK && !turned && y < geometry->stored_height_px; y++) {
        memcpy(rgb + y * tight_row_bytes,
                converter->scratch + (ptrdiff_t)y * converter->scratch_row_bytes,
                (size_t)tight_row_bytes);
    }
    return st;
}

void
pf_converter_free(pf_converter *converter)
{
    sws_freeContext(converter->scaler);
    av_freep(&converter->scratch);
    *converter = (pf_converter){0};
}

bool
pf_planar_of(const AVFrame *frame, const pf_geometry *geometry, pf_planar *planar)
{
    pf_component component[3] = {{0}, {0}, {0}};
    const upright way = upright_way(geometry, 2, 2, 1, 2); /* tells what is reversed */
    const bool flips_x = way.right == -1 || way.down == -1;
    const bool flips_y = way.right == -2 || way.down == -2;
    int depth = 0;

    if (frame->width != geometry->stored_width_px ||
            frame->height != geometry->stored_height_px ||
            !describe(frame, component, &depth) || depth != 8 ||
            component[1].data == NULL || component[1].x_shift != 1 ||
            component[1].y_shift != 1) {
        return false;
    }
    if ((flips_x && frame->width % 2 != 0) || (flips_y && frame->height % 2 != 0)) {
        return false;
    }
    planar->matrix = matrix_of(frame->colorspace);
    planar->full_range = is_full_range(frame, false);
    return true;
}

/* Samples of one plane, upright, rows tight. */
static void
copy_plane(const pf_component *from, const upright *way, uint8_t *dst)
{
    for (ptrdiff_t y = 0; y < way->height; y++, dst += way->width) {
        const uint8_t *src = from->data + way->first + y * way->down;

        if (way->right == 1) {
            memcpy(dst, src, (size_t)way->width);
            continue;
        }
        for (ptrdiff_t x = 0; x < way->width; x++, src += way->right) {
            dst[x] = *src;
        }
    }
}

void
pf_copy_planes(
        const AVFrame *frame, const pf_geometry *geometry, uint8_t *const plane[3])
{
    pf_component component[3] = {{0}, {0}, {0}};
    int depth = 0;

    if (!describe(frame, component, &depth)) {
        return; /* not a frame that pf_planar_of is content with */
    }
    for (int i = 0; i < 3; i++) {
        const pf_component *from = &component[i];
        const upright way =
                upright_way(geometry, (frame->width + from->x_shift) >> from->x_shift,
                        (frame->height + from->y_shift) >> from->y_shift,
                        from->step_bytes, from->row_bytes);

        copy_plane(from, &way, plane[i]);
    }
}

void
pf_black_planes(const pf_geometry *geometry, bool full_range, uint8_t *const plane[3])
{
    const size_t width = (size_t)geometry->stored_width_px;
    const size_t height = (size_t)geometry->stored_height_px;
    const size_t n_chroma = (width + 1) / 2 * ((height + 1) / 2);

    memset(plane[0], full_range ? 0 : 16, width * height);
    memset(plane[1], 128, n_chroma);
    memset(plane[2], 128, n_chroma);
}
