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

template <class T, class By>
MATS_DEVICE T rotate_left(T v, By by) {
  return (v << by) | (v >> ((64u - by) & 63u));
}

// Bijective 32-bit finaliser: xor-shift and odd multiplications, each step invertible.
template <class T>
MATS_DEVICE T mix32(T v) {
  v ^= v >> 16;
  v *= 0x7FEB352Du;
  v ^= v >> 15;
  v *= 0x846CA68Bu;
  v ^= v >> 16;
  return v;
}

// mix32 of the lower and of the upper half of each word.
MATS_DEVICE Wide mix_halves(Wide v) {
#if defined(MATS_HOST) || defined(MATS_SIM)
  typedef u32 Halves __attribute__((vector_size(8 * MATS_WIDTH)));
  return (Wide)mix32((Halves)v);
#else
  return (u64)mix32((u32)v) | ((u64)mix32((u32)(v >> 32)) << 32);
#endif
}

// The parameters of a pattern; what they mean stands at its kind.
struct Pattern {
  u64 a, b, mask;
};

// What the batch that begins at this word should hold.
template <u32 KIND>
MATS_DEVICE void expect_batch(u64 word, const Pattern& pattern, Batch& want) {
  const u64 a = pattern.a, b = pattern.b, stride = 2ull * MATS_LANES;
  const u32 high = (u32)(word >> 32);  // a batch never crosses 2^32 words: chunks start on 2 MiB
  const u32 key0 = (u32)a + high * 0x9E3779B9u, key1 = (u32)(a >> 32) ^ (high * 0x85EBCA6Bu + 0x68E31DA4u);
  const u64 keys = key0 | ((u64)key1 << 32);
  const u64 phase = (word >> 1) % 20ull, pace = (stride >> 1) % 20ull;
  MATS_UNROLL
  for (u32 k = 0; k < MATS_WIDES; ++k) {
    const u32 i = MATS_WIDTH * k;
    const Wide step = count_up() + MATS_WORD_STEP(i, stride);
    Wide value;
    if (KIND == PATTERN_ADDRESS) {
      value = step + (word + a);
    } else if (KIND == PATTERN_ROTATED) {
      value = rotate_left(step * MATS_ODD + (word * MATS_ODD + a), (u32)b);
    } else if (KIND == PATTERN_CONSTANT) {
      value = (where_equal((count_up() + i) & 1ull, 1) & (a ^ b)) ^ a;
    } else if (KIND == PATTERN_WALKING) {
      value = rotate_left(step * 0ull + a, (step + (word + b)) & 63ull);
    } else if (KIND == PATTERN_RANDOM) {
      const Wide low = (step + word) & 0xFFFFFFFFull;
      value = mix_halves((low | (low << 32)) ^ keys);
    } else {
      // Below 80: a where it is b modulo 20, ~a elsewhere.
      const Wide at = (count_up() >> 1) * pace + (phase + (i >> 1) * pace);
      value = (where_equal(at, b) | where_equal(at, b + 20) | where_equal(at, b + 40) | where_equal(at, b + 60)) ^ ~a;
    }
    want.wide[k] = value ^ pattern.mask;
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
