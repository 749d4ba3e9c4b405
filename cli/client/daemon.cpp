#include "cli/client/daemon.hpp"

#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/text/render.hpp"
#include "common/files.hpp"
#include "common/protocol/job_operations.hpp"

namespace roll::cli {
namespace {

// Adds a hint to the error if the user holds a key of another user's rolld, because the user cannot
// start that rolld.
Error for_holder(Error error, const io::StateDirectory& directory) {
    if (error.code == ErrorCode::Unavailable && directory.is_key_holders())
        error.hint = kAskOperator;
    return error;
}

}  // namespace

Result<Daemon> Daemon::connect(const Context& context) {
    ROLL_TRY(io::StateDirectory directory, io::StateDirectory::find(context.directory));
    auto client = io::Client::connect(directory);
    if (!client) return tl::unexpected(for_holder(std::move(client).error(), directory));
    return Daemon(std::move(directory), *std::move(client));
}

Result<Daemon> Daemon::connect_for_change(const Context& context) {
    ROLL_TRY(const io::StateDirectory directory, io::StateDirectory::find(context.directory));
    const auto deadline = std::chrono::steady_clock::now() + kRestartPatience;
    for (bool told = false;;) {
        auto daemon = connect(context);
        // If the user has a key for another user's rolld, that rolld runs on another machine. The
        // state directory then does not show whether rolld is about to start.
        const bool expected = directory.is_key_holders() || path_exists(directory.pid("rolld"));
        if (daemon || daemon.error().code != ErrorCode::Unavailable || !expected ||
            std::chrono::steady_clock::now() > deadline)
            return daemon;
        if (!std::exchange(told, true))
            say(fmt::format("rolld does not answer; waiting up to {} s for it to restart",
                            kRestartPatience.count()));
        pause(std::chrono::milliseconds(200));
    }
}

Result<Json> Daemon::send(const std::string& op, const Json& args) {
    auto reply = client_->ask(op, args);
    if (!reply) return tl::unexpected(for_holder(std::move(reply).error(), directory_));
    return reply;
}

Result<void> Daemon::each_page(protocol::JobsArgs args,
                               const std::function<void(Json& page)>& visit) {
    for (Json next = 0; !next.is_null();) {
        args.from = next.get<std::uint64_t>();
        ROLL_TRY(Json page, ask(args));
        next = page.value("next", Json());
        visit(page);
    }
    return {};
}

Result<Json> Daemon::jobs(protocol::JobsArgs args) {
    Json all;
    ROLL_TRY_VOID(each_page(std::move(args), [&](Json& page) {
        if (all.is_null()) {
            all = std::move(page);
            return;
        }
        for (Json& job : page["jobs"]) all["jobs"].push_back(std::move(job));
    }));
    all.erase("next");
    return all;
}

Result<Json> Daemon::send_patiently(const std::string& op, const Json& args,
                                    std::chrono::seconds patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (;;) {
        if (client_) {
            auto reply = send(op, args);
            if (reply || reply.error().code != ErrorCode::Unavailable ||
                std::chrono::steady_clock::now() > deadline) {
                return reply;
            }
        }
        pause(std::chrono::milliseconds(200));
        auto client = io::Client::connect(directory_);
        if (client) {
            client_.emplace(*std::move(client));
        } else if (std::chrono::steady_clock::now() > deadline) {
            return tl::unexpected(std::move(client).error());
        } else {
            client_.reset();
        }
    }
}

std::vector<Result<Json>> Daemon::send_each_patiently(const std::string& op,
                                                      const std::vector<Json>& args,
                                                      std::chrono::seconds patience) {
    std::vector<Result<Json>> replies = client_->ask_all(op, args);
    for (std::size_t i = 0; i < args.size(); ++i) {
        if (!replies[i] && replies[i].error().code == ErrorCode::Unavailable)
            replies[i] = send_patiently(op, args[i], patience);
    }
    return replies;
}

std::optional<uid_t> Daemon::runs_as() {
    if (directory_.is_key_holders()) {
        const Json uid = ask(protocol::VersionArgs{}).value_or(Json::object()).value("uid", Json());
        return uid.is_number_unsigned() ? std::optional(uid.get<uid_t>()) : std::nullopt;
    }
    struct stat status {};
    if (::stat(directory_.root().c_str(), &status) != 0) return std::nullopt;
    return status.st_uid;
}

Result<Json> Daemon::show(std::uint64_t id) {
    ROLL_TRY(Json reply, ask_patiently(protocol::ShowArgs{.id = id}, std::chrono::seconds(60)));
    return reply.value("job", Json::object());
}

Result<Json> await_change(Daemon& daemon, const char* op, Result<Json> reply,
                          const std::function<Result<Json>()>& repeat) {
    while (reply && reply->value("schema", "") == "roll.progress/1") {
        say(fmt::format("{}: {} of {} jobs done; rolld continues even if you stop this command", op,
                        reply->value("done", std::uint64_t{0}),
                        reply->value("jobs", std::uint64_t{0})));
        const protocol::ProgressArgs again{.ticket = reply->value("ticket", std::uint64_t{0}),
                                           .wait_ms = 1000};
        reply = daemon.ask_patiently(again, kRestartPatience);
        const bool forgotten = !reply && reply.error().code == ErrorCode::NotFound;
        // A restarted rolld has no record of the request, so send the request again.
        if (forgotten) reply = repeat();
    }
    return reply;
}

void say_finished(const Json& reply) {
    const std::string over = ids_text(reply.value("over", Json::array()));
    const Json jobs = reply.value("cancelled", reply.value("jobs", Json::array()));
    if (!over.empty())
        say("already finished: " + over);
    else if (jobs.empty())
        say("none of the selected jobs is queued or running");
}

std::string user_name() {
    const passwd* entry = ::getpwuid(::getuid());
    return entry != nullptr ? entry->pw_name : fmt::format("{}", ::getuid());
}

Result<std::vector<std::uint64_t>> jobs_of(Daemon& daemon, const std::string& selector) {
    const protocol::JobsArgs args{.selector = selector, .all = true, .fields = {"id"}};
    ROLL_TRY(const Json reply, daemon.jobs(args));
    std::vector<std::uint64_t> ids;
    for (const Json& job : reply.value("jobs", Json::array()))
        ids.push_back(job.value("id", std::uint64_t{0}));
    if (!ids.empty()) return ids;
    return fail(ErrorCode::NotFound, fmt::format("there is no job {}", selector),
                "rollctl jobs -a");
}

Result<std::uint64_t> one_job(Daemon& daemon, const std::string& selector) {
    ROLL_TRY(const auto ids, jobs_of(daemon, selector));
    if (ids.size() == 1) return ids[0];
    return fail(
        ErrorCode::InvalidArgument,
        fmt::format("{} matches {} jobs; this command accepts only one", selector, ids.size()),
        fmt::format("rollctl jobs -a '{}'", selector));
}

}  // namespace roll::cli
