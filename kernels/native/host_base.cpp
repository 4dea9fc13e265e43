// The host flavour for the processor's baseline.
#define MATS_HOST
#define MATS_FIND mats_host_base_find
#define MATS_RUN mats_host_base_run
#include "flavour.inc"
