// A Slurm with all faults that rolld may meet. It is slow or does not answer. It accepts an order
// but does not report the job, or reports the job much later. It leaves jobs out of its list, lists
// jobs that have ended, cuts its answers, loses its state and uses ids again. It ends allocations
// early, with or without a warning, suspends them, or requeues them.
//
// Nodes of its jobs die, and Slurm notices this only later. Or Slurm takes nodes for dead while
// their processes continue. Only this object knows the truth about its jobs.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "daemon/pilots/desk.hpp"
#include "tests/sim/random.hpp"

namespace roll::sim {

struct SlurmJob {
    std::string id{};
    std::string key{};
    spec::PilotQueue queue{};
    std::string state = "PENDING";
    int begins_at = 0;       // second at which Slurm has resources for the job
    int ends_at = 0;         // second of the end; set when the job runs
    bool forgotten = false;  // slurmctld has lost the job; its processes run until slurmd notices
    bool requeued = false;   // the job is ended and will be queued again with the same id
    int warned_at = 0;       // second at which its workers get SIGTERM, by --signal or scancel
    int suspended_until = 0;
    std::map<int, int> failed{};  // by index of a dead node: when Slurm notices the death
    std::set<int> down{};         // indices of nodes that Slurm reports as down, rightly or not
    int ended_by_slurmd_at = 0;   // when slurmd ends the processes on nodes that are wrongly down
    bool alive() const { return state == "PENDING" || state == "RUNNING"; }
};

// Returns Slurm's name of one of the job's nodes.
std::string node_name(const SlurmJob& job, int index);

class FakeSlurm {
  public:
    explicit FakeSlurm(Random& random) : random_(random) {}

    // Carry out an errand and return its outcome. An order may have been queued although the
    // outcome does not say so.
    pilots::Outcome submit(const pilots::Submit& order, bool accepted, int now);
    pilots::Outcome refuse(const pilots::Submit& order) const;
    pilots::Outcome unsure(const pilots::Submit& order) const;
    pilots::Outcome list(bool faults, int now) const;
    pilots::Outcome cancel(const pilots::Cancel& errand, bool faults, int now);
    pilots::Outcome tell(const pilots::AskNodes& errand, bool faults, int now) const;

    // Returns whether slurmctld is away: it answers no command and starts no job.
    bool away(int now) const { return now < away_until_; }

    // Lives for one second. The result lists the jobs that began, whose processes get SIGTERM, that
    // are suspended from now on, and that ended. It also lists the nodes that died, and the nodes
    // that are cut off because Slurm wrongly takes them for dead.
    struct Changes {
        std::vector<std::string> died{};
        std::vector<std::string> cut{};
        std::vector<const SlurmJob*> began{};
        std::vector<const SlurmJob*> warned{};
        std::vector<const SlurmJob*> suspended{};
        std::vector<const SlurmJob*> ended{};
    };
    Changes live(bool faults, int now);

    // Makes a node fail, or makes Slurm believe that a node failed.
    void lose_node(const std::string& name, int now);

    // Ends a running job, because its batch script has ended.
    void complete(const std::string& id, const std::string& key, int now);

    const std::vector<SlurmJob>& jobs() const { return jobs_; }
    bool any_alive() const;

  private:
    void lose_state();
    void mishap(int now);
    void mishap(SlurmJob& job, int now);
    void set_down(SlurmJob& job, int index, int now);
    void live_nodes(SlurmJob& job, bool faults, int now, Changes& changes);
    std::string state_of(const SlurmJob& job, bool faults, int now) const;

    Random& random_;
    std::vector<SlurmJob> jobs_{};
    int next_id_ = 1;
    int away_until_ = 0;
    std::vector<std::string> died_{};
    std::vector<std::string> cut_{};
};

}  // namespace roll::sim
