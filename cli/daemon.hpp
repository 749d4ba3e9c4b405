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

// The hint if rolld does not answer and the user holds a key of another user's rolld.
constexpr const char* kAskOperator =
    "ask the operator whether rolld runs and whether `rollctl keys list` shows your key";

class Daemon {
  public:
    // Connects to rolld. Fails with Unavailable if rolld was never started in the context's state
    // directory.
    static Result<Daemon> connect(const Context& context);

    // Connects for an operation that changes State. Waits up to 20 s for a rolld that is starting
    // or has crashed, and says on stderr that it waits.
    static Result<Daemon> connect_for_change(const Context& context);

    // Sends one request and returns the reply. If `args` has a selector of jobs, adds the name of
    // the user that "@me" in the selector stands for.
    Result<Json> ask(const std::string& op, Json args = Json::object());

    // Calls `visit` with each page of the reply to `jobs`.
    Result<void> each_page(Json args, const std::function<void(Json& page)>& visit);
    // Returns the reply to `jobs`, with the jobs of all pages in it.
    Result<Json> jobs(Json args);

    // Like ask(), but while rolld restarts, connects again and retries for up to `patience`.
    // Requires that the operation may be repeated without harm.
    Result<Json> ask_patiently(const std::string& op, Json args, std::chrono::seconds patience);

    // Like ask_patiently(), for many requests at once. Returns a reply or an error for each of
    // `args`, in order.
    std::vector<Result<Json>> ask_each_patiently(const std::string& op,
                                                 const std::vector<Json>& args,
                                                 std::chrono::seconds patience);

    // Returns the user id of rolld and its jobs; nullopt if it is unknown. If `rollctl keys add`
    // made the state directory, rolld is asked for the id. Otherwise the id is that of the state
    // directory's owner.
    std::optional<uid_t> runs_as();

    // Returns the reply to `show` for the job. Retries while rolld restarts.
    Result<Json> show(std::uint64_t id);

  private:
    Daemon(io::StateDirectory directory, io::Client client)
        : directory_(std::move(directory)),
          client_(std::move(client)) {}

    io::StateDirectory directory_;
    std::optional<io::Client> client_;
};

// Carries out an operation that changes State and may be repeated without harm. Connects with
// connect_for_change(), and retries for 20 s while rolld restarts. Returns the reply once the
// change is complete; reports progress on stderr.
Result<Json> change(const Context& context, const std::string& op, Json args);

// Returns the name of the user who runs this program.
std::string user_name();

// Returns the ids of the jobs that `selector` selects, ascending. Fails with NotFound if there is
// none.
Result<std::vector<std::uint64_t>> jobs_of(Daemon& daemon, const std::string& selector);

// Returns the id of the one job that `selector` selects. Fails with NotFound if `selector` selects
// no job, and with InvalidArgument if it selects several jobs.
Result<std::uint64_t> one_job(Daemon& daemon, const std::string& selector);

}  // namespace roll::cli
