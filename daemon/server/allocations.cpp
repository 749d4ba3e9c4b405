// The operations of `rollctl alloc`, and the Slurm commands (errands) that State requires.
#include <spdlog/spdlog.h>

#include "daemon/server/server.hpp"

namespace roll::server {
namespace {

Result<std::string> queue_name(const protocol::Request& request) {
    JsonReader r(request.args, request.op);
    auto name = r.get<std::string>("queue");
    ROLL_TRY_VOID(r.finish_lenient());
    return name;
}

}  // namespace

Result<void> Server::claim_queue(const Client& client, const protocol::Request& request) {
    const std::string& by = client.who.user;
    std::string name;
    std::size_t input = 0;
    if (request.op == "alloc_add") {
        if (options_.endpoint.starts_with("ipc:"))
            return fail(ErrorCode::Refused,
                        "rolld listens on this machine only (" + options_.endpoint +
                            "), but pilots run on other machines",
                        "rollctl down; rollctl up --endpoint tcp://0.0.0.0:7070");
        JsonReader r(request.args, request.op);
        const Json& json = r.raw("queue");
        ROLL_TRY_VOID(r.finish_lenient());
        ROLL_TRY(spec::PilotQueue queue, spec::pilot_queue_from_json(dump(json)));
        name = queue.name;
        input = add(core::AddQueue{std::move(queue), by});
    } else {
        ROLL_TRY(name, queue_name(request));
        if (request.op == "alloc_remove")
            input = add(core::RemoveQueue{name, by});
        else
            input = add(core::PauseQueue{name, request.op == "alloc_pause", by});
    }
    asked_.push_back(
        {{input}, client.peer, request.id, [name](bool changed) {
             return Json{{"schema", "roll.queue/1"}, {"queue", name}, {"changed", changed}};
         }});
    return {};
}

Json Server::list_allocations() const {
    Json list = query::allocations(engine_.state(), hearsay(), wall_clock_now());
    list["shared"] = options_.site.directory;
    return list;
}

// Returns the commands that an order of this queue would run, with the text KEY in place of the
// order's key.
Result<Json> Server::dry_run(const protocol::Request& request) {
    spec::PilotQueue queue;
    if (request.args.contains("spec")) {
        ROLL_TRY(queue, spec::pilot_queue_from_json(dump(request.args.at("spec"))));
    } else {
        ROLL_TRY(const std::string name, queue_name(request));
        const auto found = engine_.state().queues.find(name);
        if (found == engine_.state().queues.end())
            return fail(ErrorCode::NotFound, "there is no allocation queue " + name,
                        "rollctl alloc list");
        queue = found->second.spec;
    }
    const std::string key = options_.cluster + "." + std::to_string(engine_.state().incarnation) +
                            "." + std::to_string(engine_.state().next_allocation);
    const slurm::Command command = slurm::submit_command(queue, key, options_.site);
    return Json{{"schema", "roll.alloc_dry_run/1"},
                {"queue", queue.name},
                {"command", command.arguments},
                {"script", command.input}};
}

// Starts the next errand (a Slurm command) if none is running. The errand is derived only from
// State and Slurm's last answers. A lost outcome therefore does no harm.
void Server::run_errands() {
    if (stopping_) return;
    if (!withdrawing_ && !desk_.withdraw(engine_.state()).empty()) {
        withdrawing_ = true;
        boost::asio::post(io_, [this] { withdraw(); });
    }
    if (auto errand = desk_.next(engine_.state(), steady_ms())) runner_.start(*std::move(errand));
}

// Schedules a turn that withdraws all orders that are no longer needed.
void Server::withdraw() {
    withdrawing_ = false;
    for (core::Input& input : desk_.withdraw(engine_.state())) add(std::move(input));
    turn();
}

// Adds the inputs about silent workers whose nodes Slurm reports as down. Costs nothing if no
// worker runs in an allocation.
void Server::hear_of_silence(bool fell_silent) {
    const core::State& state = engine_.state();
    if (fell_silent) desk_.hurry(steady_ms());
    if (state.allocations.empty()) return;
    const auto& silent = sessions_.silent(state, beacon_.published());
    for (core::Input& input : desk_.gone(state, silent, steady_ms()))
        inputs_.push_back(std::move(input));
}

void Server::take_outcome(const pilots::Outcome& outcome) {
    const std::string before = desk_.trouble();
    for (core::Input& input : desk_.take(outcome, engine_.state(), steady_ms()))
        add(std::move(input));
    if (desk_.trouble() != before) {
        if (desk_.trouble().empty())
            spdlog::info("Slurm answers again");
        else
            spdlog::warn("Slurm: {}", desk_.trouble());
    }
    turn();
}

std::chrono::milliseconds Server::until_errand() const {
    const auto wakeup = desk_.wakeup(engine_.state());
    return wakeup ? *wakeup - steady_ms() : std::chrono::hours(1);
}

}  // namespace roll::server
