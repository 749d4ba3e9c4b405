// Counts the FLOPs of matrix products while code runs.
#pragma once

#include <cstdint>

namespace roll::train {

// While an object exists, the products of two matrices on a thread whose counter is set are added
// to that counter.
class ProductCounter {
  public:
    ProductCounter();
    ~ProductCounter();
    ProductCounter(const ProductCounter&) = delete;
    ProductCounter& operator=(const ProductCounter&) = delete;

    // Sets the counter of this thread; null: the products of this thread are not counted.
    static void count_into(std::int64_t* flops);

  private:
    std::uint64_t callback_;
};

}  // namespace roll::train
