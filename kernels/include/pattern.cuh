// The data patterns: the value of a 64-bit word as a function of its index in the tested space. Computed both when
// writing and when verifying, so that a verify costs one read and no reference copy exists.
// The same functions stand in Python in probes/_patterns.py (a test compares them).
#ifndef MATS_PATTERN_CUH
#define MATS_PATTERN_CUH

#include "mats.cuh"

enum PatternKind : u32 {
  PATTERN_ADDRESS = 0,   // index + a: unique, plain to read
  PATTERN_ROTATED = 1,   // rotl(index * ODD + a, b): unique, about half the bits differ between neighbours; b in 1..63
  PATTERN_CONSTANT = 2,  // even words a, odd words b
  PATTERN_WALKING = 3,   // rotl(a, index + b): one bit walks through the words
  PATTERN_RANDOM = 4,    // counter-based: two invertible 32-bit hashes of the index under the key a
  PATTERN_MODULO = 5,    // every 20th 16-byte unit (offset b) holds a, the others ~a
};

#define MATS_ODD 0x9E3779B97F4A7C15ull

MATS_DEVICE u64 rotate_left(u64 v, u32 by) { return (v << by) | (v >> ((64u - by) & 63u)); }

// Bijective 32-bit finaliser: xor-shift and odd multiplications, each step invertible.
MATS_DEVICE u32 mix32(u32 v) {
  v ^= v >> 16;
  v *= 0x7FEB352Du;
  v ^= v >> 15;
  v *= 0x846CA68Bu;
  v ^= v >> 16;
  return v;
}

template <u32 KIND>
MATS_DEVICE void expected_batch(u64 word, u64 stride, u64 a, u64 b, u64 mask, Batch& want) {
  const u64 base = word * MATS_ODD + a;
  const u32 high = (u32)(word >> 32);  // a batch never crosses 2^32 words: chunks start on 2 MiB
  const u32 key0 = (u32)a + high * 0x9E3779B9u;
  const u32 phase = (u32)((word >> 1) % 20ull), pace = (u32)(stride >> 1) % 20u;
  const u32 key1 = (u32)(a >> 32) ^ (high * 0x85EBCA6Bu + 0x68E31DA4u);
  MATS_UNROLL
  for (u32 i = 0; i < 2 * MATS_BATCH; ++i) {
    const u64 step = MATS_WORD_STEP(i, stride);
    u64 value;
    if (KIND == PATTERN_ADDRESS) {
      value = word + step + a;
    } else if (KIND == PATTERN_ROTATED) {
      value = rotate_left(base + step * MATS_ODD, (u32)b);
    } else if (KIND == PATTERN_CONSTANT) {
      value = i & 1 ? b : a;
    } else if (KIND == PATTERN_WALKING) {
      value = rotate_left(a, (u32)(word + step + b) & 63u);
    } else if (KIND == PATTERN_RANDOM) {
      const u32 low = (u32)word + (u32)step;
      value = (u64)mix32(low ^ key0) | ((u64)mix32(low ^ key1) << 32);
    } else {
      value = (phase + (i >> 1) * pace) % 20u == (u32)b ? a : ~a;
    }
    want.word[i] = value ^ mask;
  }
}

// Runs BODY<KIND>() for the kind chosen at run time: the branch is uniform and outside of every loop.
#define MATS_FOR_KIND(kind, BODY)                             \
  switch (kind) {                                             \
    case PATTERN_ADDRESS: BODY(PATTERN_ADDRESS); break;       \
    case PATTERN_ROTATED: BODY(PATTERN_ROTATED); break;       \
    case PATTERN_CONSTANT: BODY(PATTERN_CONSTANT); break;     \
    case PATTERN_WALKING: BODY(PATTERN_WALKING); break;       \
    case PATTERN_RANDOM: BODY(PATTERN_RANDOM); break;         \
    default: BODY(PATTERN_MODULO); break;                     \
  }

#endif
