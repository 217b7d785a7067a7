/* kernels.cu - all device code as one unit, for nvcc, NVRTC and the emulator. */
#include "resize_plain.cu"
#include "resize_tiled.cu"
#include "resize_tensor.cu"
#include "fuse.cu"
#include "statistics.cu"
