// The simulated memory: a geometry (channels behind an address hash, shuffled 2 MiB pages, banks and rows) and a set
// of faults, through which every access of the simulator's kernels passes. The fault names and parameters are those
// of mats/devices/_plans.py; the behaviour of each follows the project's fault catalogue.
#ifndef MATS_FAULT_MODEL_HPP
#define MATS_FAULT_MODEL_HPP

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

#include "faults.hpp"
#include "timing_model.hpp"

namespace mats_sim {

class Model {
 public:
  Geometry geometry{};
  std::vector<Fault> faults;
  u64 bytes_read = 0, bytes_written = 0;
  double now = 0;  // simulated seconds
  Timing timing;

  Model(const Geometry& shape, const Fault* given, unsigned count, u64 seed)
      : geometry(shape), faults(given, given + count), timing(seed), state_(seed * 2 + 1) {
    for (std::size_t i = 0; i < faults.size(); ++i) {
      const u32 kind = 1u << faults[i].kind, bit = 1u << i;
      if (kind & READ_KINDS) on_read_ |= bit;
      if (kind & WRITE_KINDS) on_write_ |= bit;
      if (kind & RARE_KINDS && faults[i].probability < 0.1) rare_ |= bit;
      left_.push_back(faults[i].probability < 1.0 ? draw(faults[i].probability) : 0);
    }
  }

  // A chunk of memory at host address `base`. `pages` holds two numbers for each of its 2 MiB pages: its slot (which
  // page of the simulated card it is: sector and word numbers count from there) and its physical page number.
  void map(u64* base, u64 size, const u64* pages) {
    Region region{reinterpret_cast<u64>(base), size, {}, {}, {}, {}};
    for (u64 i = 0; i < size / PAGE; ++i) {
      region.slots.push_back(pages[2 * i]);
      region.pages.push_back(pages[2 * i + 1]);
      if (storage_.size() <= pages[2 * i]) storage_.resize(pages[2 * i] + 1, nullptr);
      storage_[pages[2 * i]] = reinterpret_cast<char*>(base) + i * PAGE;
    }
    region.affected.assign(size / 32, 0);
    region.touched.assign(size / LINE, {});
    regions_.push_back(std::move(region));
    mark(regions_.back());
  }

  void unmap(const u64* base) {
    for (std::size_t i = 0; i < regions_.size(); ++i) {
      if (regions_[i].base != reinterpret_cast<u64>(base)) continue;
      for (const u64 slot : regions_[i].slots) storage_[slot] = nullptr;
      regions_.erase(regions_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  }

  void begin_launch() {
    activations_.clear();
    timing.passed += bytes_read + bytes_written;
    timing.begin();
    bytes_read = bytes_written = 0;
  }

  void end_launch() {  // disturb errors appear when the launch that hammered is over
    if (!activations_.empty()) disturb();
  }

  void read(const u64* p, u64* out, u32 words);
  void write(u64* p, const u64* in, u32 words);
  void activate(const u64* p);
  u64 walk(const u64* p, bool near);
  Place place(u64 physical) const;
  const unsigned* unit = nullptr;  // the unit (multiprocessor) that runs now; set by the launcher

 private:
  static constexpr u64 PAGE = 2ull << 20, LINE = 128;

  struct Region {
    u64 base, size;
    std::vector<u32> affected;  // per sector: bit mask of faults
    std::vector<u64> slots, pages;
    std::vector<Touched> touched;  // per line
    u64 physical(u64 offset) const { return pages[offset / PAGE] * PAGE + offset % PAGE; }
    u64 id(u64 sector) const { return slots[sector * 32 / PAGE] * (PAGE / 32) + sector % (PAGE / 32); }
  };

  static constexpr u32 READ_KINDS = 1u << STUCK_BITS | 1u << FLIP_BITS | 1u << RANDOM_LANE | 1u << INVERT_LANE |
                                    1u << CONSTANT_WORDS | 1u << ALIAS | 1u << WRONG_ROW | 1u << DECAY |
                                    1u << DAMAGED | 1u << CORE;
  static constexpr u32 WRITE_KINDS = 1u << ALIAS | 1u << LOST_WRITE | 1u << DECAY | 1u << COUPLE | 1u << UPSET;
  static constexpr u32 RARE_KINDS = 1u << FLIP_BITS | 1u << RANDOM_LANE | 1u << WRONG_ROW | 1u << LOST_WRITE | 1u << CORE;
  u32 on_read_ = 0, on_write_ = 0, rare_ = 0;  // bit masks over `faults`
  std::vector<u64> left_;                      // per fault: chances until its next event

  // True when none of the faults `any` acts on the next eight sectors, `affected` of each; counts their chances.
  bool passes(u32 any, const u32* affected) {
    if (!any) return true;
    if (any & ~rare_) return false;
    for (u32 i = 0; any >> i; ++i)
      if (any >> i & 1 && left_[i] < 8) return false;
    for (u32 i = 0; any >> i; ++i) {
      if (!(any >> i & 1) || (faults[i].kind == CORE && !(unit && *unit == faults[i].value))) continue;
      for (u32 s = 0; s < 8; ++s) left_[i] -= affected[s] >> i & 1;
    }
    return true;
  }

  std::vector<Region> regions_;
  std::vector<char*> storage_;  // by slot: where a page's data are, null while not allocated
  u64 state_;
  std::unordered_map<u64, double> written_;    // sector -> time of the last write, kept for DECAY sectors only
  std::unordered_map<u64, u64> write_count_;   // sector -> writes, kept for UPSET sectors only
  std::unordered_map<u64, u64> activations_;   // channel/bank/row -> activations in this launch

  u64 random() {  // splitmix64
    u64 z = (state_ += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  // Events of a fault come after geometrically distributed numbers of chances, drawn ahead: most accesses only count.
  bool chance(std::size_t fault) {
    if (faults[fault].probability >= 1.0) return true;
    if (left_[fault]-- > 0) return false;
    left_[fault] = draw(faults[fault].probability);
    return true;
  }
  u64 draw(double p) {
    if (p <= 0) return 1ull << 62;
    const double u = (static_cast<double>(random() >> 11) + 1) * 0x1p-53;
    return static_cast<u64>(std::log(u) / std::log1p(-p));
  }

  static u64 key(const Place& at) { return (at.channel << 48) ^ (at.bank << 40) ^ at.row; }

  Region* find(const void* p) {
    const u64 a = reinterpret_cast<u64>(p);
    for (Region& r : regions_)
      if (a - r.base < r.size) return &r;
    return nullptr;
  }

  void mark(Region& region);
  u64* cell(Region& region, u64 offset, u32 affected);
  void read_sector(Region& region, u64 sector, const u64* from, u64* out, u32 first, u32 words);
  void write_sector(Region& region, u64 sector, u64* to, const u64* in, u32 first, u32 words);
  void couple(const Fault& fault, const u64* before, const u64* in, u32 first, u32 words);
  void disturb();
};

inline Place Model::place(u64 physical) const {
  Place at{};
  u64 bits = 0;
  for (u64 i = 0; i < geometry.channel_bits; ++i)
    bits |= static_cast<u64>(__builtin_parityll(physical & geometry.masks[i])) << i;
  at.channel = ((physical >> 12) % geometry.groups) << geometry.channel_bits | bits;
  const u64 channels = geometry.groups << geometry.channel_bits;
  const u64 local = (physical >> 8) / channels * 256 + (physical & 255);
  const u64 row = local / geometry.row_bytes;
  at.column = local % geometry.row_bytes / 32;
  at.bank = row % geometry.banks;
  at.row = row / geometry.banks;
  return at;
}

inline void Model::mark(Region& region) {
  for (u64 s = 0; s < region.size / 32; ++s) {
    const Place at = place(region.physical(s * 32));
    u32 hit = 0;
    for (std::size_t i = 0; i < faults.size(); ++i) {
      const Fault& f = faults[i];
      const bool here = (f.channel == ~0ull || f.channel == at.channel) && (f.bank == ~0ull || f.bank == at.bank) &&
                        (f.row == ~0ull || f.row == at.row) && (f.column == ~0ull || f.column == at.column) &&
                        (f.sector == ~0ull || f.sector == region.id(s)) &&
                        (f.page == ~0ull || f.page == region.slots[s * 32 / PAGE]);
      if (here) hit |= 1u << i;
    }
    region.affected[s] = hit;
  }
}

// Where the data of an aliased sector really live: of two that share a cell, at the lower address.
inline u64* Model::cell(Region& region, u64 offset, u32 affected) {
  u64 at = region.slots[offset / PAGE] * PAGE + offset % PAGE;
  for (std::size_t i = 0; affected >> i; ++i) {
    if (!(affected >> i & 1) || faults[i].kind != ALIAS) continue;
    const u64 other = at ^ faults[i].value;
    if (other < at && other / PAGE < storage_.size() && storage_[other / PAGE]) at = other;
  }
  return reinterpret_cast<u64*>(storage_[at / PAGE] + at % PAGE);
}

inline void Model::read(const u64* p, u64* out, u32 words) {
  Region* region = find(p);
  bytes_read += 8ull * words;
  if (!region) {
    std::memcpy(out, p, 8ull * words);
    return;
  }
  const u64 offset = reinterpret_cast<u64>(p) - region->base;
  if (words == 32 && offset % 256 == 0) {  // the sweeps' batch: eight sectors, nearly always all of them whole
    u32 any = 0;
    const u32* affected = &region->affected[offset / 32];
    for (u32 s = 0; s < 8; ++s) any |= affected[s];
    if (passes(any & on_read_, affected)) {
      std::memcpy(out, p, 256);
      return;
    }
  }
  for (u32 done = 0; done < words;) {
    const u64 at = offset + 8ull * done;
    const u32 first = static_cast<u32>(at % 32 / 8);
    const u32 count = words - done < 4 - first ? words - done : 4 - first;
    read_sector(*region, at / 32, p + done, out + done, first, count);
    done += count;
  }
}

inline void Model::write(u64* p, const u64* in, u32 words) {
  Region* region = find(p);
  bytes_written += 8ull * words;
  if (!region) {
    std::memcpy(p, in, 8ull * words);
    return;
  }
  const u64 offset = reinterpret_cast<u64>(p) - region->base;
  if (words == 32 && offset % 256 == 0) {
    u32 any = 0;
    const u32* affected = &region->affected[offset / 32];
    for (u32 s = 0; s < 8; ++s) any |= affected[s];
    if (passes(any & on_write_, affected)) {
      std::memcpy(p, in, 256);
      return;
    }
  }
  for (u32 done = 0; done < words;) {
    const u64 at = offset + 8ull * done;
    const u32 first = static_cast<u32>(at % 32 / 8);
    const u32 count = words - done < 4 - first ? words - done : 4 - first;
    write_sector(*region, at / 32, p + done, in + done, first, count);
    done += count;
  }
}

inline void Model::read_sector(Region& region, u64 sector, const u64* from, u64* out, u32 first, u32 words) {
  const u32 affected = region.affected[sector] & on_read_;
  if (!affected) {
    std::memcpy(out, from, 8ull * words);
    return;
  }
  u64* stored = cell(region, sector * 32 + 8ull * first, affected);
  const u64 id = region.id(sector);
  for (std::size_t i = 0; affected >> i; ++i) {
    const Fault& f = faults[i];
    if (!(affected >> i & 1) || f.kind != DECAY) continue;
    const auto last = written_.find(id);
    if (last == written_.end() || now - last->second < f.after) continue;
    for (u32 w = 0; w < words; ++w)
      if (f.word == ~0ull || f.word == first + w) stored[w] = (stored[w] & ~f.mask) | (f.value & f.mask);
  }
  std::memcpy(out, stored, 8ull * words);
  for (std::size_t i = 0; affected >> i; ++i) {
    if (!(affected >> i & 1)) continue;
    const Fault& f = faults[i];
    switch (f.kind) {
      case FLIP_BITS:
        if (chance(i)) out[random() % words] ^= f.mask;
        break;
      case CORE:
        if (unit && *unit == f.value && chance(i)) out[random() % words] ^= 1ull << (random() & 63);
        break;
      case WRONG_ROW:
        if (chance(i)) {
          const u64 other = random() % (region.size / 32);
          std::memcpy(out, reinterpret_cast<const u64*>(region.base + other * 32) + first, 8ull * words);
        }
        break;
      case RANDOM_LANE:
        if (chance(i))
          for (u32 w = 0; w < words; ++w) out[w] = (out[w] & ~f.mask) | (random() & f.mask);
        break;
      default:
        break;
    }
    for (u32 w = 0; w < words; ++w) {
      if (f.word != ~0ull && f.word != first + w) continue;
      if (f.kind == STUCK_BITS) out[w] = (out[w] & ~f.mask) | (f.value & f.mask);
      if (f.kind == INVERT_LANE && chance(i)) out[w] ^= f.mask;
      if (f.kind == CONSTANT_WORDS) out[w] = f.value;
      if (f.kind == DAMAGED) {
        u64 z = (id * 4 + first + w + f.value) * 0x9E3779B97F4A7C15ull;
        z ^= z >> 29;
        const u64 stuck = z * 0xBF58476D1CE4E5B9ull, level = stuck * 0x94D049BB133111EBull;
        out[w] = (out[w] & ~stuck) | (level & stuck);
      }
    }
  }
}

inline void Model::write_sector(Region& region, u64 sector, u64* to, const u64* in, u32 first, u32 words) {
  const u32 affected = region.affected[sector] & on_write_;
  if (!affected) {
    std::memcpy(to, in, 8ull * words);
    return;
  }
  const u64 id = region.id(sector);
  u64* stored = cell(region, sector * 32 + 8ull * first, affected);
  u64 before[4];
  std::memcpy(before, stored, 8ull * words);
  bool lost = false;
  u64 upset = 0;
  for (std::size_t i = 0; affected >> i; ++i) {
    if (!(affected >> i & 1)) continue;
    const Fault& f = faults[i];
    if (f.kind == LOST_WRITE && chance(i)) lost = true;
    if (f.kind == DECAY) written_[id] = now;
    if (f.kind == UPSET && ++write_count_[id] == f.threshold) upset = f.mask;
  }
  if (!lost) std::memcpy(stored, in, 8ull * words);
  if (upset) stored[0] ^= upset;
  for (std::size_t i = 0; affected >> i; ++i)
    if ((affected >> i & 1) && faults[i].kind == COUPLE) couple(faults[i], before, in, first, words);
}

// The aggressor is word `word` of sector `sector`; the victim the bit `mask` of word number `value`. Idempotent coupling: a rising aggressor bit forces the victim bit to the level of `threshold`.
inline void Model::couple(const Fault& fault, const u64* before, const u64* in, u32 first, u32 words) {
  for (u32 w = 0; w < words; ++w) {
    if (fault.word != first + w) continue;
    const u64 rising = in[w] & ~before[w] & fault.mask;
    if (!rising) continue;
    const u64 slot = fault.value * 8 / PAGE;
    if (slot >= storage_.size() || !storage_[slot]) continue;
    u64* victim = reinterpret_cast<u64*>(storage_[slot] + fault.value * 8 % PAGE);
    *victim = fault.threshold ? (*victim | fault.mask) : (*victim & ~fault.mask);
  }
}

inline void Model::activate(const u64* p) {
  Region* region = find(p);
  if (!region) return;
  activations_[key(place(region->physical(reinterpret_cast<u64>(p) - region->base)))]++;
}

// One load of a chain: its value through the faults, its time on the simulated clock.
inline u64 Model::walk(const u64* p, bool near) {
  Region* region = find(p);
  const u64 offset = region ? reinterpret_cast<u64>(p) - region->base : 0;
  const u64 physical = region ? region->physical(offset) : reinterpret_cast<u64>(p);
  double factor = 1;
  if (region)
    for (u32 i = 0, affected = region->affected[offset / 32]; affected >> i; ++i)
      if ((affected >> i & 1) && faults[i].kind == SLOW) factor *= faults[i].factor;
  Touched outside;
  if (!region && timing.away > 0)
    timing.load_away();
  else
    timing.load(physical / LINE, physical / PAGE, place(physical).channel, unit ? *unit : 0, factor, near,
                region ? region->touched[offset / LINE] : outside);
  u64 value;
  read(p, &value, 1);
  return value;
}

inline void Model::disturb() {
  for (std::size_t i = 0; i < faults.size(); ++i) {
    const Fault& f = faults[i];
    if (f.kind != DISTURB) continue;
    for (Region& region : regions_)
      for (u64 s = 0; s < region.size / 32; ++s) {
        if (!(region.affected[s] >> i & 1)) continue;
        Place at = place(region.physical(s * 32));
        u64 near = 0;
        for (int side : {-1, 1}) {
          Place other = at;
          other.row = at.row + static_cast<u64>(side);
          const auto hit = activations_.find(key(other));
          if (hit != activations_.end()) near += hit->second;
        }
        u64 z = region.id(s) * 0x9E3779B97F4A7C15ull;
        z ^= z >> 31;
        if (near < f.threshold || z % 4) continue;  // a weak bit in every fourth sector of the row
        u64* word = reinterpret_cast<u64*>(region.base + s * 32) + (z >> 8) % 4;
        const u64 bit = 1ull << ((z >> 16) & 63);
        if ((z >> 24) & 1) *word |= bit; else *word &= ~bit;
      }
  }
}

// The model of the launch that runs on this thread.
extern thread_local Model* current;

}  // namespace mats_sim

#endif  // MATS_FAULT_MODEL_HPP
