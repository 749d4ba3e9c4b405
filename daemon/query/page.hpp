// Limits a page of a reply to the maximum message size.
#pragma once

#include <cstddef>

#include "common/json.hpp"

namespace roll::query {

class Page {
  public:
    // Returns true if there is room for one more row. The first row is always accepted.
    bool takes(const Json& row);

  private:
    std::size_t bytes_ = 0;
};

}  // namespace roll::query
