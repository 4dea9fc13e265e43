// Looks again at words that failed: was it the cell or the way to it? Traffic: one word an error record.
#include "include/report.cuh"

// step 0, 1: read each recorded word once more; step 2: write the expected value; step 3: read after that write.
// Between the steps the caller passes the cache, else the same cached copy would answer. `tiles` is the number of
// records.
MATS_KERNEL(recheck, u64 tiles, u64* records, u32 step) {
  for (u64 i = blockIdx.x * (u64)MATS_LANES + MATS_LANE; i < tiles; i += (u64)gridDim.x * MATS_LANES) {
    u64* record = records + i * MATS_RECORD_WORDS;
    u64* address = (u64*)record[MATS_RECORD_ADDRESS];
    if (step == 2)
      store_word(address, record[MATS_RECORD_EXPECTED]);
    else if (step == 3)
      record[MATS_RECORD_REWRITE] = load_uncached(address);
    else
      record[MATS_RECORD_REREAD + step] = load_uncached(address);
  }
}
