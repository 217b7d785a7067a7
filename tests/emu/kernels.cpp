/* kernels.cpp - the project's device code, unchanged, for the emulated driver. */
#include "kernels.cu"

CUEMU_EXPORT(pf_pass, pf_gpu_resize)
CUEMU_EXPORT(pf_tiled_rgb24, pf_gpu_resize)
CUEMU_EXPORT(pf_tiled_nv12, pf_gpu_resize)
CUEMU_EXPORT(pf_tiled_i420, pf_gpu_resize)
CUEMU_EXPORT(pf_turned_rgb24, pf_gpu_resize)
CUEMU_EXPORT(pf_turned_nv12, pf_gpu_resize)
CUEMU_EXPORT(pf_turned_i420, pf_gpu_resize)
