/* kernels.cpp - the project's device code, unchanged, for the emulated driver. */
#include "kernels.cu"

CUEMU_EXPORT(pf_pass, pf_gpu_resize)
CUEMU_EXPORT(pf_tiled, pf_gpu_resize)
CUEMU_EXPORT(pf_turned, pf_gpu_resize)
CUEMU_EXPORT(pf_tensor, pf_gpu_resize)
CUEMU_EXPORT(pf_option_scores, pf_gpu_scores)
CUEMU_EXPORT(pf_fuse_passes, pf_gpu_fuse)
CUEMU_EXPORT(pf_resample_counts, pf_gpu_counts)
CUEMU_EXPORT(pf_frame_distance, pf_gpu_distance)
