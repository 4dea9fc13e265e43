// Holds back what is queued behind it until the host has queued everything, so that copies on several devices start at
// one moment and the time it took to issue them is in none of them. Traffic: one word over the bus a look.
#include "include/timing.cuh"

// So often at most, whatever the clock says: a simulated one may stand still.
#define MATS_LOOKS (1ull << 24)

// Looks at the word `open` in the host's memory until it is not 0, for `nanoseconds` at most: a host that died or is
// itself held up by what it queued does not hold the device for ever.
MATS_KERNEL(hold_stream, u64 tiles, const u64* open, u64 nanoseconds) {
  if (tiles == 0 || blockIdx.x != 0 || MATS_LANE != 0) return;
  const u64 begun = read_nanoseconds();
  for (u64 look = 0; look < MATS_LOOKS; ++look)
    if (load_word(open) != 0 || read_nanoseconds() - begun >= nanoseconds) break;
}
