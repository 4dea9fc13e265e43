// The grid flavour: the GPU's thread layout on CPU threads. Only the tests build it (sanitizers, fake driver).
#define MATS_GRID
#define MATS_FIND mats_grid_find
#define MATS_RUN mats_grid_run
#include "flavour.inc"
