// Checks that memory holds what was written: write a pattern, verify it, exchange it for another one.
// Traffic per byte tested: pattern_write 1 write; pattern_verify 1 read; pattern_exchange 1 read + 1 write
// (+ 1 read from the cache with `reread`); modulo_others 0.95 write.
// `first` is the index in the tested space of the chunk's first 64-bit word; tiles of 64 KiB.
#include "include/pattern.cuh"
#include "include/report.cuh"

template <u32 KIND>
MATS_DEVICE void write_all(u64 tiles, u64* data, u64 first, Pattern pattern, u32 descending) {
  for_each_batch(tiles, descending, [=](u64 vector) {
    Batch want;
    expect_batch<KIND>(first + 2 * vector, pattern, want);
    store_batch(data, vector, want);
  });
}

MATS_KERNEL(pattern_write, u64 tiles, u64* data, u64 first, u32 kind, u64 a, u64 b, u64 mask, u32 descending) {
#define MATS_BODY(KIND) write_all<KIND>(tiles, data, first, {a, b, mask}, descending)
  MATS_FOR_KIND(kind, MATS_BODY)
#undef MATS_BODY
  finish_stores();
}

template <u32 KIND>
MATS_DEVICE void verify_all(u64 tiles, const u64* data, u64 first, Pattern pattern, u32 descending, Book book) {
  for_each_batch(tiles, descending, [=](u64 vector) {
    Batch seen, want;
    fetch_ahead(data, vector, descending);
    load_batch(data, vector, seen);
    expect_batch<KIND>(first + 2 * vector, pattern, want);
    check_batch(data, vector, first, want, seen, book);
  });
}

MATS_KERNEL(pattern_verify, u64 tiles, const u64* data, u64 first, u32 kind, u64 a, u64 b, u64 mask, u32 descending,
            u64* report, u64* pages, u64* records, u64 capacity) {
#define MATS_BODY(KIND) \
  verify_all<KIND>(tiles, data, first, {a, b, mask}, descending, {report, pages, records, capacity})
  MATS_FOR_KIND(kind, MATS_BODY)
#undef MATS_BODY
}

// The read-then-write element of moving inversions and March tests: each batch is read and compared with the old
// pattern, then the new one is written, and with `reread` read once more (the r of an "r,w,r" element).
template <u32 KIND>
MATS_DEVICE void exchange_all(u64 tiles, u64* data, u64 first, Pattern before, Pattern after, u32 descending, u32 reread,
                              Book book) {
  // But for the mask: nothing to compute twice. A GPU has the time, and not the registers that this takes.
  const bool same = MATS_WIDTH > 1 && before.a == after.a && before.b == after.b;
  for_each_batch(tiles, descending, [=](u64 vector) {
    Batch seen, want;
    fetch_ahead(data, vector, descending);
    load_batch(data, vector, seen);
    expect_batch<KIND>(first + 2 * vector, before, want);
    check_batch(data, vector, first, want, seen, book);
    if (same) {
      MATS_UNROLL
      for (u32 k = 0; k < MATS_WIDES; ++k) want.wide[k] ^= before.mask ^ after.mask;
    } else {
      expect_batch<KIND>(first + 2 * vector, after, want);
    }
    replace_batch(data, vector, want);
    if (reread) {
      load_batch(data, vector, seen);
      check_batch(data, vector, first, want, seen, book);
    }
  });
}

MATS_KERNEL(pattern_exchange, u64 tiles, u64* data, u64 first, u32 kind, u64 a, u64 b, u64 mask, u64 new_a, u64 new_b,
            u64 new_mask, u32 descending, u32 reread, u64* report, u64* pages, u64* records, u64 capacity) {
#define MATS_BODY(KIND)                                                                              \
  exchange_all<KIND>(tiles, data, first, {a, b, mask}, {new_a, new_b, new_mask}, descending, reread, \
                     {report, pages, records, capacity})
  MATS_FOR_KIND(kind, MATS_BODY)
#undef MATS_BODY
  finish_stores();
}

// Modulo-20, second half: writes `value` to every 16-byte unit but each 20th (offset `skip`), which must not change.
MATS_KERNEL(modulo_others, u64 tiles, u64* data, u64 first, u64 skip, u64 value) {
  for_each_batch(tiles, 0, [=](u64 vector) {
    for (u32 k = 0; k < MATS_BATCH; ++k) {
      const u64 at = vector + (u64)k * MATS_LANES;
      const vec v = {value, value};
      if (((first >> 1) + at) % 20ull != skip) store_vec(data + 2 * at, v);
    }
  });
  finish_stores();
}
