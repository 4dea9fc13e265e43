// What can be wrong with a simulated memory, and where: the C side of mats/devices/_plans.py.
#ifndef MATS_FAULTS_HPP
#define MATS_FAULTS_HPP

namespace mats_sim {

typedef unsigned int u32;
typedef unsigned long long u64;

// Kinds of fault, in the order of FAULT_KINDS in mats/devices/_plans.py (a test compares the two).
enum FaultKind : u32 {
  STUCK_BITS = 0,      // mask of a 64-bit word held at `value` on every read
  FLIP_BITS = 1,       // with `probability` a sector read flips `mask` in one of its words; the cell is unharmed
  RANDOM_LANE = 2,     // with `probability` a sector read gets random bits under `mask` in each of its words
  INVERT_LANE = 3,     // with `probability` a word read is inverted under `mask`
  CONSTANT_WORDS = 4,  // every read gives `value`
  ALIAS = 5,           // the address and the address ^ `value` share a cell
  WRONG_ROW = 6,       // with `probability` a sector read is served from another sector
  LOST_WRITE = 7,      // with `probability` a sector write is dropped
  DECAY = 8,           // bits under `mask` fall to `value` when not written for `after` seconds
  COUPLE = 9,          // a write that changes the aggressor's `mask` flips the victim's bit; see couple()
  DISTURB = 10,        // after `threshold` activations of neighbouring rows in one launch, bits of the row flip
  DAMAGED = 11,        // a fixed half of the bits of each word is stuck at fixed values
  UPSET = 12,          // one bit flips once, at the `threshold`-th write of its sector
  CORE = 13,           // reads through one multiprocessor (`value`) flip a random bit with `probability`
  SLOW = 14,           // a load that reaches the memory takes `factor` times as long
};

struct Fault {
  u32 kind;
  u32 unused;
  u64 mask;
  u64 value;
  u64 threshold;
  double probability;
  double after;
  // Where: a sector is affected when each of these matches; ~0 matches all.
  u64 channel, bank, row, column;
  u64 sector;  // number of the 32-byte sector: slot * 65536 + sector within the page
  u64 word;    // word within the sector, ~0 all
  u64 page;    // number of the 2 MiB page: its slot
  double factor;
};

struct Geometry {
  u64 channel_bits;   // the power-of-two part: parities of physical address bits under `masks`
  u64 masks[8];
  u64 groups;         // the other part (5 or 6 stacks, 3 partitions): physical address / 4 KiB modulo this
  u64 banks;
  u64 row_bytes;      // of one channel
};

struct Place {
  u64 channel, bank, row, column;
};

}  // namespace mats_sim

#endif  // MATS_FAULTS_HPP
