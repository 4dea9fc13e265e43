// The simulated clock: what each load of a walk costs on a card with caches, a translation buffer and a place for each
// multiprocessor. The figures are of the size that is published for cards of 2020 to 2025 and are invented otherwise.
#ifndef MATS_TIMING_MODEL_HPP
#define MATS_TIMING_MODEL_HPP

#include <cmath>
#include <vector>

#include "faults.hpp"

namespace mats_sim {

// In cycles; bytes.
struct TimingShape {
  double core_hz = 1.5e9;
  double near_hit = 33, far_hit = 230, memory = 330, other_half = 110, translation = 40;
  double unit_spread = 25, slice_spread = 15, channel_spread = 8, hit_jitter = 4, jitter = 20;
  double disturbed_loads = 0.06, disturbed_walks = 0.01, wander = 0.0003;
  u64 near_cache = 16 << 10, cache = 256 << 10, translations = 8;
};

// When a line was last loaded, on the counters of bytes that passed the two caches; 0: never.
struct Touched {
  u64 cache = 0, near = 0;
};

class Timing {
 public:
  TimingShape shape{};
  double cycles = 0;  // of the multiprocessor that walks
  double away = 0;    // seconds of a load from another card's memory; 0: what is not this card's is as near as its own
  u64 passed = 1;     // bytes that went through the L2 cache: what was touched longer ago than it holds is gone

  explicit Timing(u64 seed) : state_(seed * 2 + 77), heat_(1.0) {
    step_at_ = 100 + random() % 900;
    step_ = (random() & 1 ? 1 : -1) * (0.02 + 0.06 * uniform());
  }

  double nanoseconds() const { return cycles / shape.core_hz * 1e9; }

  // A launch that walks begins: its nearest cache is empty, and now and then something else takes its time.
  void begin() {
    cycles = 0;
    begun_ = false;
  }

  // The cost of one load from another card's memory, which answers from its cache.
  void load_away() {
    if (!begun_) start_walk();
    cycles += away * shape.core_hz + shape.jitter * normal(random());
  }

  // The cost of one load: `line` and `page` are physical numbers, `factor` how much slower a faulty memory answers.
  void load(u64 line, u64 page, u64 channel, unsigned unit, double factor, bool near, Touched& touched) {
    if (!begun_) start_walk();
    const bool near_hit = near && touched.near && near_passed_ - touched.near < shape.near_cache;
    const bool hit = touched.cache && passed - touched.cache < shape.cache;
    passed += near_hit ? 0 : 128;
    near_passed_ += near ? 128 : 0;
    touched.cache = passed;
    touched.near = near ? near_passed_ : 0;
    if (near_hit) {
      cycles += shape.near_hit;
      return;
    }
    double cost = shape.far_hit + shape.unit_spread * normal(hash(unit + 1000)) +
                  shape.slice_spread * normal(hash(line % 64 + 2000));
    if ((hash(line + 3000) ^ unit) & 1) cost += shape.other_half;
    if (!known(page)) cost += shape.translation;
    if (!hit) {
      cost = (cost + shape.memory + shape.channel_spread * normal(hash(channel + 4000))) * factor;
      if (uniform() < shape.disturbed_loads) cost += 100 + 300 * uniform();
    }
    cost += (hit ? shape.hit_jitter : shape.jitter) * normal(random());
    cycles += cost * heat_ * slice_;
  }

 private:
  u64 state_, near_passed_ = 1, walks_ = 0, step_at_ = 0;
  double heat_, step_ = 0, slice_ = 1;
  bool begun_ = false;
  std::vector<u64> pages_;  // the translation buffer, the latest first

  // Clocks wander, step once, and one walk in a hundred shares its multiprocessor with something else.
  void start_walk() {
    begun_ = true;
    near_passed_ += shape.near_cache;
    heat_ *= 1 + shape.wander * normal(random());
    if (++walks_ == step_at_) heat_ *= 1 + step_;
    slice_ = uniform() < shape.disturbed_walks ? 1.05 + 1.95 * uniform() : 1.0;
  }

  bool known(u64 page) {
    for (std::size_t i = 0; i < pages_.size(); ++i) {
      if (pages_[i] != page) continue;
      for (; i > 0; --i) pages_[i] = pages_[i - 1];
      pages_[0] = page;
      return true;
    }
    pages_.insert(pages_.begin(), page);
    if (pages_.size() > shape.translations) pages_.pop_back();
    return false;
  }

  static u64 hash(u64 z) {
    z = (z + 0x9E3779B97F4A7C15ull) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  u64 random() { return hash(state_ += 0x9E3779B97F4A7C15ull); }
  double uniform() { return static_cast<double>(random() >> 11) * 0x1p-53; }
  // About normal, mean 0 and deviation 1: the sum of four uniform parts of a random word.
  static double normal(u64 word) {
    const double sum = static_cast<double>((word & 0xFFFF) + (word >> 16 & 0xFFFF) + (word >> 32 & 0xFFFF) + (word >> 48));
    return (sum / 65536.0 - 2.0) * 1.7320508;
  }
};

}  // namespace mats_sim

#endif  // MATS_TIMING_MODEL_HPP
