#include "tests/daemon/core/checks.hpp"

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include <sys/wait.h>
#include <unistd.h>

#include "common/spec/schema/array.hpp"

namespace roll::core {
namespace {

// The checks that no broken State or call makes fire. tests/sim/mutations.py breaks the code that
// they check.
const std::set<std::string> kByMutation = {
    "allocation/planner.cpp: budget.orders > 0 && budget.alive < budget.most",
    "allocation/planner.cpp: nodes_[i].memory >= 0 && nodes_[i].cpus >= 0",
    "allocation/planner.cpp: nodes_[i].slots >= 0 && nodes_[i].gpu_hundredths >= 0",
    "placement/find_places.cpp: places.empty() || std::ssize(places) == wanted.workers()",
};

// Returns "FILE: CONDITION" for a file below daemon/core.
std::string name_of_check(const std::string& path, const std::string& condition) {
    const std::string folder = "daemon/core/";
    return path.substr(path.find(folder) + folder.size()) + ": " + condition;
}

// Returns the text up to the closing parenthesis, with single spaces, as the macro prints it.
std::string condition_at(const std::string& text, std::size_t at) {
    std::string condition;
    for (int depth = 1;; ++at) {
        depth += (text[at] == '(') - (text[at] == ')');
        if (depth == 0) return condition;
        const bool space = text[at] == ' ' || text[at] == '\n';
        if (!space)
            condition += text[at];
        else if (!condition.ends_with(' '))
            condition += ' ';
    }
}

}  // namespace

Busy::Busy() {
    one = join("n1", 4, 1);
    two = join("n2", 4, 1);
    three = join("n3", 4);
    spec::JobSpec spec = wants(1, 1);
    spec.open = true;
    group = submit(spec);
    spec = wants(1, 1);
    spec.into = group;
    spec.begin = now + std::chrono::hours(9);
    submit(spec);
    spec = wants(2, 1, 1);
    spec.kind = spec::JobKind::Train;
    train = submit(spec);
    for (const Place& place : std::vector(run().places)) tell(MemberStarted{place.worker, key()});
    tell(AskCheckpoint{train});
    tell(CheckpointWritten{one, key(), 10, "/c", 1});
    done = submit(wants(1, 1));
    exit(done, Outcome::Done);
    spec = wants(1, 1);
    spec.retry.backoff = {};
    retried = submit(spec);
    exit(retried, Outcome::Infra, 1);
    pass(std::chrono::hours(1));
    exit(retried, Outcome::Done);
    fresh = submit(wants(1, 1));
    spec = wants(1, 1);
    spec.array = spec::Array{.indices = "0-1", .limit = 1};
    array = JobId{submit(spec).value - 1};
    spec = wants(1, 1);
    spec.after = {{spec::After::Condition::Ok, array}};
    waits = submit(spec);
    ready = submit(wants(1, 100));
    submit(wants(1, 4, 4));
    accept(1);
    pilot_comes(1, "n1.a1");
}

ReadyJobs& Busy::line_of(JobId id) {
    const QueueKey key{the(id).spec.priority, id};
    const auto has_it = [&](const auto& item) { return item.second.by_priority.contains(key); };
    return std::ranges::find_if(state.index.ready, has_it)->second;
}

std::string fired(const std::function<void()>& broken) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        ::dup2(ends[1], STDERR_FILENO);
        broken();
        ::_exit(0);
    }
    ::close(ends[1]);
    std::string text;
    char bytes[4096];
    for (ssize_t got = 0; (got = ::read(ends[0], bytes, sizeof bytes)) > 0;)
        text.append(bytes, static_cast<std::size_t>(got));
    ::close(ends[0]);
    ::waitpid(child, nullptr, 0);
    const std::string mark = ": check failed: ";
    const std::size_t at = text.find(mark);
    if (at == std::string::npos) return "no check fired: " + text;
    const std::size_t line = text.rfind(':', at - 1);
    const std::size_t last = text.find('\n', at);
    return name_of_check(text.substr(0, line),
                         text.substr(at + mark.size(), last - at - mark.size()));
}

std::set<std::string> all_checks() {
    std::set<std::string> all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(CORE_FOLDER)) {
        const std::string path = entry.path().string();
        if (!path.ends_with(".cpp") && !path.ends_with(".hpp")) continue;
        std::stringstream read;
        read << std::ifstream(path).rdbuf();
        const std::string text = read.str(), mark = "ROLL_CHECK(";
        for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1))
            all.insert(name_of_check(path, condition_at(text, at + mark.size())));
    }
    return all;
}

TEST(Checks, FireInStatesThatNoEventLeadsTo) {
    Busy().check();
    std::set<std::string> seen = kByMutation;
    for (const auto& part : {fired_by_states(), fired_by_events(), fired_by_calls()})
        seen.insert(part.begin(), part.end());
    const std::set<std::string> all = all_checks();
    for (const std::string& check : all)
        EXPECT_TRUE(seen.contains(check)) << "no case fires " << check;
    for (const std::string& check : seen) EXPECT_TRUE(all.contains(check)) << check;
}

}  // namespace roll::core
