// Moves memory without checking it: the bounds that a test's bandwidth is compared with, and passing the cache.
// Traffic per byte: copy_sweep 1 read + 1 write; read_sweep 1 read; page_ids_* 16 bytes of each 4 KiB.
#include "include/report.cuh"

MATS_KERNEL(copy_sweep, u64 tiles, u64* destination, const u64* source) {
  for_each_batch(tiles, 0, [=](u64 vector) {
    Batch batch;
    fetch_ahead(source, vector, 0);
    load_batch(source, vector, batch);
    store_batch(destination, vector, batch);
  });
  finish_stores();
}

// Reads everything; the sum goes to `sink` so that no compiler leaves the reads out.
MATS_KERNEL(read_sweep, u64 tiles, const u64* data, u64* sink) {
  Wide sum = {};
  for_each_batch(tiles, 0, [&sum, data](u64 vector) {
    Batch batch;
    fetch_ahead(data, vector, 0);
    load_batch(data, vector, batch);
    MATS_UNROLL
    for (u32 k = 0; k < MATS_WIDES; ++k) sum ^= batch.wide[k];
  });
  add_atomic(sink, any_bit(sum));
}

// Fake capacity: a unique id at the start of each 4 KiB; memory that is not there answers with another page's id.
MATS_KERNEL(page_ids_write, u64 tiles, u64* data, u64 first) {
  for (u64 i = blockIdx.x * (u64)MATS_LANES + MATS_LANE; i < tiles * 16; i += (u64)gridDim.x * MATS_LANES) {
    const u64 id = first + i * 512;
    const vec v = {id, ~id};
    store_vec(data + i * 512, v);
  }
  finish_stores();
}

MATS_KERNEL(page_ids_verify, u64 tiles, const u64* data, u64 first, u64* report, u64* pages, u64* records,
            u64 capacity) {
  for (u64 i = blockIdx.x * (u64)MATS_LANES + MATS_LANE; i < tiles * 16; i += (u64)gridDim.x * MATS_LANES) {
    const u64 local = i * 512, id = first + local;
    const vec v = load_vec(data + local);
    if (v.x != id) report_word(report, pages, records, capacity, data + local, local, id, id, v.x);
  }
}

// Flips bits of one word: how the tester proves itself before its silence counts. One lane; `tiles` is 1.
MATS_KERNEL(inject, u64 tiles, u64* data, u64 word, u64 flips) {
  if (tiles && blockIdx.x == 0 && MATS_LANE == 0) store_word(data + word, load_word(data + word) ^ flips);
  finish_stores();
}
