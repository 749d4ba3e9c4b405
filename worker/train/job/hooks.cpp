#include "worker/train/job/hooks.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

#include "common/json.hpp"
#include "common/spec/schema/units.hpp"
#include "worker/train/process/child.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

// Returns the number as JSON text. Parsing the text gives exactly the same number.
std::string number_text(double value) { return Json(value).dump(); }

}  // namespace

struct Hooks::Running {
    std::string name;
    std::int64_t step = 0;
    bool stops = false;
    pid_t pid = 0;
    std::string failure{};  // written by `thread`; may be read once `over` is true
    std::atomic<bool> over{false};
    std::thread thread{};
};

std::map<std::string, Hook, std::less<>> read_hooks(std::string_view text) {
    std::map<std::string, Hook, std::less<>> hooks;
    const auto document = parse_json(text);
    if (!document) return hooks;
    const Json::json_pointer section("/train/hooks");
    if (!document->contains(section)) return hooks;
    for (const auto& [name, json] : (*document)[section].items()) {
        Hook hook;
        hook.command = json.value("command", hook.command);
        if (hook.command.empty()) continue;
        hook.timeout = need(spec::parse_duration(json.value("timeout", std::string("60s"))));
        hook.stops = json.value("on_fail", "warn") == std::string("stop");
        hook.waits = json.value("wait", false);
        hook.every = json.value("every", std::int64_t{0});
        hooks.emplace(name, std::move(hook));
    }
    return hooks;
}

Hooks::Hooks(const protocol::Launch& launch, int rank) {
    if (rank != 0) return;
    hooks_ = read_hooks(launch.document);
    environment_ = with_environment({"ROLL_JOB=" + std::to_string(launch.attempt.job.value),
                                     "ROLL_TOKEN=" + to_string(launch.attempt.token),
                                     "ROLL_OUTPUT=" + launch.output,
                                     "ROLL_METRICS=" + launch.output + "/metrics.jsonl"});
}

Hooks::~Hooks() {
    for (auto& [name, running] : running_) {
        if (!running->over && running->pid > 0) ::kill(-running->pid, SIGKILL);
        if (running->thread.joinable()) running->thread.join();
    }
}

void Hooks::run(std::string_view name, const HookFacts& facts) {
    const auto found = hooks_.find(name);
    if (found == hooks_.end()) return;
    check();
    const Hook& hook = found->second;
    if (running_.contains(name)) {
        std::printf("hook %s at step %lld is skipped, because its previous run has not ended\n",
                    found->first.c_str(), static_cast<long long>(facts.step));
        return;
    }
    std::vector<std::string> environment = environment_;
    const auto set = [&](const std::string& key, const std::string& value) {
        environment.push_back(key + "=" + value);
    };
    set("ROLL_HOOK", found->first);
    set("ROLL_STEP", std::to_string(facts.step));
    set("ROLL_STEPS", std::to_string(facts.steps));
    set("ROLL_TOKENS", std::to_string(facts.tokens));
    if (facts.loss) set("ROLL_LOSS", number_text(*facts.loss));
    if (facts.valid_loss) set("ROLL_VALID_LOSS", number_text(*facts.valid_loss));
    if (!facts.checkpoint.empty()) set("ROLL_CHECKPOINT", facts.checkpoint);
    if (facts.status) set("ROLL_STATUS", std::to_string(*facts.status));
    std::fflush(stdout);
    const pid_t pid = start_child(hook.command, std::move(environment));
    auto running = std::make_unique<Running>();
    running->name = found->first;
    running->step = facts.step;
    running->stops = hook.stops;
    running->pid = pid;
    running->thread = std::thread(
        [pid, timeout = hook.timeout, program = hook.command.front(), to = running.get()] {
            to->failure = pid > 0 ? await_child(pid, timeout)
                                  : "cannot start " + program + ": " + std::strerror(-pid);
            to->over = true;
        });
    if (hook.waits) running->thread.join();
    running_.emplace(found->first, std::move(running));
    if (hook.waits) check();
}

void Hooks::step_done(const HookFacts& facts) {
    check();
    const auto hook = hooks_.find("step");
    if (hook == hooks_.end() || hook->second.every <= 0) return;
    if (facts.step % hook->second.every == 0) run("step", facts);
}

void Hooks::conclude(const Running& running) {
    if (running.failure.empty()) return;
    const std::string text =
        "hook " + running.name + " at step " + std::to_string(running.step) + " " + running.failure;
    if (running.stops) {
        failure_ = text + "; train.hooks." + running.name + ".on_fail is stop";
        return;
    }
    std::printf("%s; training goes on\n", text.c_str());
}

void Hooks::check() {
    for (auto at = running_.begin(); at != running_.end();) {
        if (!at->second->over) {
            ++at;
            continue;
        }
        const auto ended = std::move(at->second);
        at = running_.erase(at);
        if (ended->thread.joinable()) ended->thread.join();
        conclude(*ended);
    }
}

void Hooks::finish() {
    for (auto& [name, running] : running_)
        if (running->thread.joinable()) running->thread.join();
    check();
}

}  // namespace roll::train
