// Memory shared by roll-worker and an attempt's guard. It holds two deadlines: one for starting the
// attempt, and one for killing it. roll-worker moves the deadlines while it is in contact with
// rolld; the guard only reads them. The guard therefore kills the attempt on time even if
// roll-worker is frozen.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/error.hpp"
#include "common/io/descriptor.hpp"
#include "worker/agent/core/lease.hpp"

namespace roll::agent {

class Leash {
  public:
    static Result<Leash> make();  // creates the memory; called by roll-worker
    // maps the memory of `shared`; called by the guard
    static Result<Leash> open(io::Descriptor shared);
    Leash(Leash&& other) noexcept;
    Leash& operator=(Leash&& other) noexcept;
    Leash(const Leash&) = delete;
    Leash& operator=(const Leash&) = delete;
    ~Leash();

    void set(Instant lease_ends, Instant killed_at);
    Instant lease_ends() const;
    Instant killed_at() const;
    int descriptor() const { return shared_.get(); }

  private:
    struct Page {
        std::atomic<std::int64_t> lease_ends{0};
        std::atomic<std::int64_t> killed_at{0};
    };
    static_assert(std::atomic<std::int64_t>::is_always_lock_free);

    Leash(io::Descriptor shared, Page* page) : shared_(std::move(shared)), page_(page) {}
    io::Descriptor shared_;
    Page* page_;
};

}  // namespace roll::agent
