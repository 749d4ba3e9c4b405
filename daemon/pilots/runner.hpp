// Runs the errands of a Desk: calls Slurm's commands, each in its own thread, because they block
// for seconds and rolld's loop must not block.
#pragma once

#include <functional>
#include <memory>

#include <boost/asio/io_context.hpp>

#include "daemon/pilots/desk.hpp"
#include "daemon/slurm/commands.hpp"

namespace roll::pilots {

// Runs one errand. Blocks until its command has ended or its deadline has passed.
Outcome run_errand(const Errand& errand, const slurm::Site& site);

class Runner {
  public:
    // `done` is called on the context's thread with the outcome of each errand.
    Runner(boost::asio::io_context& io, slurm::Site site, std::function<void(Outcome)> done);
    // A running errand continues, but its outcome is dropped.
    ~Runner();
    Runner(const Runner&) = delete;
    Runner& operator=(const Runner&) = delete;

    void start(Errand errand);
    const slurm::Site& site() const { return site_; }

  private:
    struct Home;
    slurm::Site site_;
    std::shared_ptr<Home> home_;
};

}  // namespace roll::pilots
