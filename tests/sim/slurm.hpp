// A Slurm as rolld may meet it: slow, away, forgetful. It accepts an order and does not say so, or
// says so much later; leaves jobs out of what it lists, lists what ended or what was so a while
// ago, cuts its answers, loses its state and gives ids out again; ends allocations early, with a
// warning or without, suspends them, or puts them back into its queue. Nodes of its jobs die, which
// it notices a while later, or are taken for dead while their processes run on. The truth about its
// jobs is known here alone.
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
    int begins_at = 0;       // the second at which there is room for it
    int ends_at = 0;         // set once it runs
    bool forgotten = false;  // slurmctld lost it; its processes run until slurmd notices
    bool requeued = false;   // it is ended and waits again, under the same id
    int warned_at = 0;       // SIGTERM reaches its workers; as sbatch's --signal, or a scancel
    int suspended_until = 0;
    std::map<int, int> failed{};  // nodes of it that are dead, by index, and when Slurm notices
    std::set<int> down{};         // those of which Slurm says that they are, rightly or not
    int ended_by_slurmd_at = 0;   // what runs on where Slurm says so wrongly
    bool alive() const { return state == "PENDING" || state == "RUNNING"; }
};

// Slurm's name of a node of a job's.
std::string node_name(const SlurmJob& job, int index);

class FakeSlurm {
  public:
    explicit FakeSlurm(Random& random) : random_(random) {}

    // What carrying out an errand does, and what is said of it. An order may take effect though
    // nothing good is said; `effect` then comes later.
    pilots::Outcome submit(const pilots::Submit& order, bool accepted, int now);
    pilots::Outcome refuse(const pilots::Submit& order) const;
    pilots::Outcome unsure(const pilots::Submit& order) const;
    pilots::Outcome list(bool faults, int now) const;
    pilots::Outcome cancel(const pilots::Cancel& errand, bool faults, int now);
    pilots::Outcome tell(const pilots::AskNodes& errand, bool faults, int now) const;

    // slurmctld is not there: no command is answered, and no job begins.
    bool away(int now) const { return now < away_until_; }

    // One second: jobs begin and end. The jobs that began, those whose processes get SIGTERM or
    // stand still from now on, and those whose processes ended; nodes that died, and those that
    // are wrongly taken for dead, cut off or not.
    struct Changes {
        std::vector<std::string> died{};
        std::vector<std::string> cut{};
        std::vector<const SlurmJob*> began{};
        std::vector<const SlurmJob*> warned{};
        std::vector<const SlurmJob*> suspended{};
        std::vector<const SlurmJob*> ended{};
    };
    Changes live(bool faults, int now);

    // A node fails, or Slurm thinks so.
    void lose_node(const std::string& name, int now);

    // Its script has ended.
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
