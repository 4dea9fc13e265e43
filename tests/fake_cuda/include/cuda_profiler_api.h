// The two documented calls of this header, which lies in a package of its own; CuPy's runtime module includes it.
#pragma once
#include <cuda_runtime_api.h>
extern "C" cudaError_t cudaProfilerStart(void);
extern "C" cudaError_t cudaProfilerStop(void);
