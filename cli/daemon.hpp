// A command's connection to rolld.
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

// The hint for a key's holder if rolld does not answer.
constexpr const char* kAskOperator =
    "ask the operator whether rolld runs and whether `rollctl keys list` shows your key";

class Daemon {
  public:
    // Connects to rolld. Fails with Unavailable if rolld was never started in the context's state
    // directory.
    static Result<Daemon> connect(const Context& context);

    // Connects for an operation that changes state. Waits up to 20 s for a rolld that is starting
    // or has crashed, and says so on stderr.
    static Result<Daemon> connect_for_change(const Context& context);

    // Sends one request and returns the reply. If `args` has a selector, adds the user name that
    // @me stands for.
    Result<Json> ask(const std::string& op, Json args = Json::object());

    // Calls `visit` with each page of the operation `jobs`.
    Result<void> each_page(Json args, const std::function<void(Json& page)>& visit);
    // Returns the reply of `jobs` with the jobs of all pages.
    Result<Json> jobs(Json args);

    // Like ask(), but reconnects and retries for up to `patience` while rolld restarts. Requires an
    // idempotent operation.
    Result<Json> ask_patiently(const std::string& op, Json args, std::chrono::seconds patience);

    // Like ask_patiently() for many requests at once. Returns a reply or an error for each of
    // `args`, in order.
    std::vector<Result<Json>> ask_each_patiently(const std::string& op,
                                                 const std::vector<Json>& args,
                                                 std::chrono::seconds patience);

    // Returns the user that rolld and its jobs run as: the owner of the state directory or, if that
    // belongs to a key's holder, what rolld reports. nullopt if rolld does not report it.
    std::optional<uid_t> runs_as();

    // Returns the job as the operation `show` describes it. Retries while rolld restarts.
    Result<Json> show(std::uint64_t id);

  private:
    Daemon(io::StateDirectory directory, io::Client client)
        : directory_(std::move(directory)),
          client_(std::move(client)) {}

    io::StateDirectory directory_;
    std::optional<io::Client> client_;
};

// Carries out an idempotent change: connects as connect_for_change() and retries for 20 s while
// rolld restarts. Returns the reply once the change is complete; reports progress on stderr.
Result<Json> change(const Context& context, const std::string& op, Json args);

// Returns the name of the user that runs this program.
std::string user_name();

// Returns the id of the one job that `selector` matches. Fails with NotFound if it matches none,
// InvalidArgument if it matches several.
Result<std::uint64_t> one_job(Daemon& daemon, const std::string& selector);

}  // namespace roll::cli
