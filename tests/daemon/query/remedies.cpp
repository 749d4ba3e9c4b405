#include "tests/daemon/query/remedies.hpp"

#include <regex>

namespace roll::query {

// Carries out the rollctl command that the remedy names.
void Explain::carry_out(const std::string& remedy) {
    std::smatch m;
    if (std::regex_search(remedy, m, std::regex("rollctl release (\\d+)"))) {
        desk.tell(core::Hold{JobId{number(m[1])}, false});
    } else if (std::regex_search(remedy, m, std::regex("rollctl update (\\d+) begin=now"))) {
        desk.tell(core::SetBegin{JobId{number(m[1])}, desk.now});
    } else if (std::regex_search(remedy, m, std::regex("rollctl update (\\d+) priority=(\\d+)"))) {
        desk.tell(core::SetPriority{JobId{number(m[1])}, std::stoi(m[2])});
    } else if (std::regex_search(remedy, m, std::regex("rollctl undrain ([\\w.]+)"))) {
        desk.tell(core::Drain{m[1], false});
    } else if (std::regex_search(remedy, m, std::regex("rollctl close (\\d+)"))) {
        desk.tell(core::Close{JobId{number(m[1])}});
    } else if (std::regex_search(remedy, m,
                                 std::regex("as user (\\w+): rollctl secret set (\\w+) <"))) {
        desk.tell(core::SetSecrets{{{m[1], m[2]}}});
    } else if (remedy == "rollctl undrain --all") {
        desk.tell(core::StopDispatch{});
    } else if (remedy.find("rollctl alloc ") != remedy.npos) {
        change_queues(remedy);
    } else if (remedy.find("set resources.time and submit the job again") != remedy.npos) {
        submit_again([](spec::Resources& wanted) { wanted.time = 1h; });
    } else if (std::regex_search(remedy, m, std::regex("(accounts|users)\\.(\\w+)\\.(\\w+)"))) {
        raise(m[1] == "users" ? policy.users[m[2]].quota : policy.accounts[m[2]].quota, m[3]);
    } else if (remedy.find("rollctl up") != remedy.npos) {
        desk.join("new", 4);
    } else if (remedy.find("roll-worker --segment") != remedy.npos) {
        for (const char* node : {"s1", "s2"})
            desk.tell(core::WorkerHello{node, node, 1, 0, {}, 0, "leaf"});
    } else if (remedy.starts_with("connect more or larger workers")) {
        for (const char* node : {"large", "larger"}) desk.join(node, 4);
    } else {
        wait(remedy);
    }
}

// Carries out "rollctl alloc VERB". If the remedy is to add a queue, adds a copy of the queue that
// blocks the job, with the changes that the remedy names.
void Explain::change_queues(const std::string& remedy) {
    std::smatch m;
    const auto says = [&](const char* what) { return remedy.find(what) != remedy.npos; };
    if (std::regex_search(remedy, m, std::regex("rollctl alloc resume (\\w+)")))
        return void(desk.tell(core::PauseQueue{m[1], false}));
    spec::PilotQueue better = queue;
    better.name = "better";
    if (std::regex_search(remedy, m, std::regex("rollctl alloc remove (\\w+)\\) and add it"))) {
        desk.tell(core::RemoveQueue{m[1]});
        better.name = m[1];
    } else if (!says("(rollctl alloc add)")) {
        return wait(remedy);
    }
    if (says("lower --min-utilization")) better.min_percent /= 2;
    if (says("larger nodes or more time")) {
        better.slots = better.gpus = 8;
        better.time = 10h;
    }
    if (says("higher limits")) better.max_jobs = better.max_nodes = better.max_gpu_hours = 100;
    desk.tell(core::AddQueue{better});
}

// Makes the event happen that "The job starts by itself when ..." names.
void Explain::wait(const std::string& remedy) {
    const auto says = [&](const char* what) { return remedy.find(what) != remedy.npos; };
    if (says("when job 1 meets this condition") ||
        says("when one of the array's running jobs ends")) {
        end(JobId{1});
    } else if (says("after 35 s")) {
        desk.tell(core::Adopted{});
    } else if (says("once Slurm grants the allocation") ||
               says("once these workers have connected")) {
        grant();
    } else if (says("once the queue's limits allow more")) {
        end(JobId{1});
    } else if (says("when rolld hears these workers again; rollctl nodes")) {
        desk.tell(core::WorkerHeard{WorkerId{1}, true});
    } else {
        ADD_FAILURE() << "no command in: " << remedy;
    }
}

// Grants all ordered allocations, and lets their workers join.
void Explain::grant() {
    for (const auto& [id, a] : std::map(desk.state.allocations)) {
        const std::string slurm_job = "s" + std::to_string(id.value);
        desk.tell(core::OrderAnswered{id, true, slurm_job, ""});
        const spec::PilotQueue& made = desk.state.queues.at(a.queue).spec;
        const core::Pilot pilot{id, desk.state.incarnation, slurm_job, desk.now + made.time};
        for (int i = a.joined; i < made.nodes; ++i) {
            const std::string node = slurm_job + "n" + std::to_string(i);
            desk.tell(core::WorkerHello{node, node, made.slots, made.gpus, pilot});
        }
    }
}

}  // namespace roll::query
