// A command's connection to rolld.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "cli/client/context.hpp"
#include "common/error.hpp"
#include "common/io/client.hpp"
#include "common/io/state_directory.hpp"
#include "common/json.hpp"
#include "common/protocol/view_operations.hpp"

namespace roll::cli {

// The hint to print if rolld does not answer and the user holds a key of another user's rolld.
constexpr const char* kAskOperator =
    "ask the operator whether rolld runs and whether `rollctl keys list` shows your key";

// Maximum time that rolld may take to restart.
constexpr std::chrono::seconds kRestartPatience{20};

// Returns the name of the user who runs this program.
std::string user_name();

class Daemon {
  public:
    // Connects to rolld. Fails with Unavailable if rolld was never started in the context's state
    // directory.
    static Result<Daemon> connect(const Context& context);

    // Like connect(), for operations that change State and for commands that must work while rolld
    // restarts. If rolld is starting or has crashed, waits up to 20 s for rolld, and says on stderr
    // that the command waits. If rolld is on another machine, also waits if rolld was stopped.
    static Result<Daemon> connect_for_change(const Context& context);

    // Sends one request, for example ask(protocol::NodesArgs{}), and returns the reply. If `args`
    // has a selector of jobs, also sends the name of the user. rolld replaces "@me" in the selector
    // by this name.
    template <class Args>
    Result<Json> ask(Args args) {
        return send(Args::kOperation.name, to_json(std::move(args)));
    }

    // Calls `visit` with each page of the reply to `jobs`.
    Result<void> each_page(protocol::JobsArgs args, const std::function<void(Json& page)>& visit);
    // Returns the reply to `jobs`, with the jobs of all pages.
    Result<Json> jobs(protocol::JobsArgs args);

    // Like ask(), but connects again and retries for up to `patience` while rolld restarts. A retry
    // may repeat the operation, so the operation must be idempotent.
    template <class Args>
    Result<Json> ask_patiently(Args args, std::chrono::seconds patience) {
        return send_patiently(Args::kOperation.name, to_json(std::move(args)), patience);
    }

    // Like ask_patiently(), but sends many requests at once. Returns a reply or an error for each
    // element of `args`, in order.
    template <class Args>
    std::vector<Result<Json>> ask_each_patiently(const std::vector<Args>& args,
                                                 std::chrono::seconds patience) {
        std::vector<Json> all;
        for (const Args& one : args) all.push_back(to_json(one));
        return send_each_patiently(Args::kOperation.name, all, patience);
    }

    // Returns the user id under which rolld and its jobs run; nullopt if it is unknown. In a state
    // directory made by `rollctl keys add`, asks rolld. In any other state directory, returns the
    // owner of the directory.
    std::optional<uid_t> runs_as();

    // Returns the connection, for callers that send several requests before the first reply
    // arrives. Requires that the connection is open.
    io::Client& client() { return *client_; }

    // Returns the reply to `show` for the job. Retries while rolld restarts.
    Result<Json> show(std::uint64_t id);

  private:
    Daemon(io::StateDirectory directory, io::Client client)
        : directory_(std::move(directory)),
          client_(std::move(client)) {}

    template <class Args>
    static Json to_json(Args args) {
        if constexpr (requires { args.selector; })
            if (!args.selector.empty()) args.me = user_name();
        return protocol::arguments_json(std::move(args));
    }
    Result<Json> send(const std::string& op, const Json& args);
    Result<Json> send_patiently(const std::string& op, const Json& args,
                                std::chrono::seconds patience);
    std::vector<Result<Json>> send_each_patiently(const std::string& op,
                                                  const std::vector<Json>& args,
                                                  std::chrono::seconds patience);

    io::StateDirectory directory_;
    std::optional<io::Client> client_;
};

// Waits until a bulk change of jobs is complete. `reply` is the first reply to the request, and may
// report progress. If rolld has forgotten the request, `repeat` sends the request again. Prints
// progress on stderr.
Result<Json> await_change(Daemon& daemon, const char* op, Result<Json> reply,
                          const std::function<Result<Json>()>& repeat);

// Requests an operation that changes State and may be repeated without harm. Connects with
// connect_for_change(), and retries for 20 s while rolld restarts. Returns the reply once the
// change is complete. Prints progress on stderr.
template <class Args>
Result<Json> change(const Context& context, Args args) {
    ROLL_TRY(Daemon daemon, Daemon::connect_for_change(context));
    if constexpr (requires { args.wait_ms; }) args.wait_ms = 250;
    const auto repeat = [&] { return daemon.ask_patiently(args, kRestartPatience); };
    return await_change(daemon, Args::kOperation.name, repeat(), repeat);
}

// Says on stderr which selected jobs had already ended before the change. If there are none and no
// job was changed, says on stderr that no selected job is queued or running. `reply` is the reply
// of change().
void say_finished(const Json& reply);

// Returns the ids of the jobs that `selector` selects, ascending. Fails with NotFound if `selector`
// selects no job.
Result<std::vector<std::uint64_t>> jobs_of(Daemon& daemon, const std::string& selector);

// Returns the id of the one job that `selector` selects. Fails with NotFound if `selector` selects
// no job, and with InvalidArgument if it selects several jobs.
Result<std::uint64_t> one_job(Daemon& daemon, const std::string& selector);

}  // namespace roll::cli
