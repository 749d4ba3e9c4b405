// A page of a reply ends before the reply is larger than a message may be.
#pragma once

#include <cstddef>

#include "common/json.hpp"

namespace roll::query {

class Page {
  public:
    // Whether there is room for one more; the first is taken whatever its size.
    bool takes(const Json& row);

  private:
    std::size_t bytes_ = 0;
};

}  // namespace roll::query
