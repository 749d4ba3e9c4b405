// A connection to rolld that a command asks.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "cli/context.hpp"
#include "common/error.hpp"
#include "common/io/client.hpp"
#include "common/io/state_directory.hpp"
#include "common/json.hpp"

namespace roll::cli {

// The advice to the holder of a key if rolld does not answer.
constexpr const char* kAskOperator =
    "ask the operator of that rolld whether it runs and whether `rollctl keys list` has your key";

class Daemon {
  public:
    // Error Unavailable if no rolld has started there.
    static Result<Daemon> connect(const Context& context);

    // For what changes something: a rolld that ended without being asked to, or that is starting,
    // is waited for 20 s, which is said on stderr.
    static Result<Daemon> connect_for_change(const Context& context);

    // Says whose @me is meant where there is a selector.
    Result<Json> ask(const std::string& op, Json args = Json::object());

    // Calls `visit` with each reply of `jobs`, a page of the jobs each, as it comes.
    Result<void> each_page(Json args, const std::function<void(Json& page)>& visit);
    // The reply of `jobs` with the jobs of all its pages.
    Result<Json> jobs(Json args);

    // The same as ask(), once more after each break until `patience` is over: for what may be asked
    // twice, while rolld restarts.
    Result<Json> ask_patiently(const std::string& op, Json args, std::chrono::seconds patience);

    // The same for many at once; each has a reply or an error of its own, in their order.
    std::vector<Result<Json>> ask_each_patiently(const std::string& op,
                                                 const std::vector<Json>& args,
                                                 std::chrono::seconds patience);

    // The user that rolld, and with it the jobs, run as: the owner of the state directory; asked of
    // rolld where that is a key's holder's. nullopt if it does not say.
    std::optional<uid_t> runs_as();

    // The job's summary and more (`show`), a rolld restart waited for.
    Result<Json> show(std::uint64_t id);

  private:
    Daemon(io::StateDirectory directory, io::Client client)
        : directory_(std::move(directory)),
          client_(std::move(client)) {}

    io::StateDirectory directory_;
    std::optional<io::Client> client_;
};

// Asks for a change, which may be said twice: connects as connect_for_change(), and rides out a
// restart for 20 s. The reply once all is done; how far many jobs are is said on stderr.
Result<Json> change(const Context& context, const std::string& op, Json args);

// The name of the user that runs this program.
std::string user_name();

// The number of the one job that a selector names. Error NotFound; InvalidArgument if it names
// more.
Result<std::uint64_t> one_job(Daemon& daemon, const std::string& selector);

}  // namespace roll::cli
