// Python's pseudorandom numbers, so that Roll draws the same examples as programs in Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace roll::train {

class PythonRandom {
  public:
    // Makes a generator of the same numbers as Python's random.Random(seed).
    explicit PythonRandom(std::uint32_t seed);

    // Returns the positions that random.sample draws from a list of `population` elements, in the
    // order in which it draws them. Requires count <= population.
    std::vector<std::size_t> sample(std::size_t population, std::size_t count);

  private:
    std::size_t below(std::size_t limit);

    std::mt19937 generator_;
};

}  // namespace roll::train
