// The source of all random choices of a simulated world. The same seed gives the same world.
#pragma once

#include <cstdint>
#include <random>

namespace roll::sim {

constexpr std::int64_t kGibibyte = 1 << 30;

class Random {
  public:
    explicit Random(std::uint64_t seed) : engine_(seed * 0x9e3779b97f4a7c15u + 1) {}

    int between(int low, int high) {
        const auto width = static_cast<std::uint64_t>(high - low + 1);
        return low + static_cast<int>(engine_() % width);
    }
    bool percent(int chance) { return between(1, 100) <= chance; }

  private:
    std::mt19937_64 engine_;
};

}  // namespace roll::sim
