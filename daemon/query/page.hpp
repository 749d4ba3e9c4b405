// Limits a page of a reply to the maximum size of a message.
#pragma once

#include <cstddef>

#include "common/json.hpp"

namespace roll::query {

class Page {
  public:
    // Returns whether the page has room for one more row, and counts the row. The first row always
    // has room.
    bool takes(const Json& row);

  private:
    std::size_t bytes_ = 0;
};

}  // namespace roll::query
