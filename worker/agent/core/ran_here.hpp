// The attempts that were started on this node. They must not start here again, even if rolld
// restores an older ledger in which they have not started yet.
#pragma once

#include <cstddef>
#include <deque>
#include <set>

#include "common/ids.hpp"

namespace roll::agent {

// Holds only the newest `most` attempts, because a worker may run for months.
class RanHere {
  public:
    explicit RanHere(std::size_t most = 65'536) : most_(most) {}

    bool contains(const AttemptKey& key) const { return keys_.contains(key); }
    void insert(const AttemptKey& key) {
        if (!keys_.insert(key).second) return;
        in_order_.push_back(key);
        if (in_order_.size() <= most_) return;
        keys_.erase(in_order_.front());
        in_order_.pop_front();
    }

  private:
    std::size_t most_;
    std::set<AttemptKey> keys_{};
    std::deque<AttemptKey> in_order_{};
};

}  // namespace roll::agent
