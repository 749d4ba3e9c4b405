#include "daemon/slurm/commands.hpp"

#include <gtest/gtest.h>

namespace roll::slurm {
namespace {

spec::PilotQueue queue() {
    spec::PilotQueue q;
    q.name = "gpu";
    q.partition = "gpu";
    q.account = "lab";
    q.qos = "normal";
    q.constraint = "h200&ib";
    q.nodes = 2;
    q.slots = 8;
    q.gpus = 8;
    q.time = std::chrono::hours(30);
    q.sbatch_args = {"--exclusive", "--mail-user=a b"};
    q.setup = {"module load cuda"};
    return q;
}

const Site kSite{"/home/u/roll",
                 "/opt/roll/bin/roll-worker",
                 "/home/u/roll/pilots",
                 {"HOME=/home/u", "PATH=/usr/bin:/it's", "SLURM_CONF=/etc/x.conf", "SLURM_JOB_ID=7",
                  "SQUEUE_FORMAT=%i", "SBATCH_PARTITION=bad", "LC_ALL=de_DE"}};

TEST(Environment, HoldsNothingThatChangesSlurmsCommands) {
    const std::vector<std::string> expected = {"HOME=/home/u", "PATH=/usr/bin:/it's",
                                               "SLURM_CONF=/etc/x.conf", "LC_ALL=C",
                                               "SLURM_TIME_FORMAT=%s"};
    EXPECT_EQ(scrub(kSite.environment), expected);
}

TEST(Submit, NamesEveryLimit) {
    const std::vector<std::string> expected = {"sbatch",
                                               "--parsable",
                                               "--job-name=roll-5f3c.1.2",
                                               "--comment=roll:alloc=5f3c.1.2",
                                               "--no-requeue",
                                               "--no-kill",
                                               "--export=ALL",
                                               "--open-mode=append",
                                               "--output=/home/u/roll/pilots/5f3c.1.2.out",
                                               "--input=/dev/null",
                                               "--nodes=2",
                                               "--ntasks-per-node=1",
                                               "--cpus-per-task=8",
                                               "--time=1-06:00:00",
                                               "--signal=TERM@120",
                                               "--gres=gpu:8",
                                               "--partition=gpu",
                                               "--account=lab",
                                               "--qos=normal",
                                               "--constraint=h200&ib",
                                               "--exclusive",
                                               "--mail-user=a b"};
    EXPECT_EQ(submit_command(queue(), "5f3c.1.2", kSite).arguments, expected);
}

TEST(Submit, TheScriptStartsAWorkerANode) {
    EXPECT_EQ(submit_command(queue(), "5f3c.1.2", kSite).input, R"(#!/bin/bash -l
# Pilot 5f3c.1.2 of Roll's allocation queue gpu: one roll-worker per node.
unset LC_ALL
export HOME='/home/u'
export LC_ALL='de_DE'
export PATH='/usr/bin:/it'\''s'
printf -v now '%(%s)T' -1
ends=${SLURM_JOB_END_TIME:-$((now + 108000))}
module load cuda
worker=('/opt/roll/bin/roll-worker' --dir '/home/u/roll' \
    --pilot '5f3c.1.2' --slots 8 --gpus 8 --ends-at "$ends" --handover 120)
"${worker[@]}" &
first=$!
srun --export=ALL --overlap --no-kill --kill-on-bad-exit=0 --wait=0 --mpi=none \
    --relative=1 --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=8 --gres=gpu:8 \
    "${worker[@]}" </dev/null &
others=$!
trap 'kill -TERM $first' TERM INT HUP USR1 USR2
for worker in $others $first; do
    until wait $worker; status=$?; ! kill -0 $worker 2>/dev/null; do :; done
done
exit $status
)");
}

TEST(Submit, HandsOnNoSecretOfRolldsEnvironment) {
    Site site = kSite;
    site.environment.emplace_back("WANDB_API_KEY=s3cret");
    const std::vector<std::string> expected = {"HOME=/home/u", "PATH=/usr/bin:/it's",
                                               "SLURM_CONF=/etc/x.conf", "LC_ALL=C"};
    EXPECT_EQ(submit_command(queue(), "k", site).environment, expected);
}

TEST(Submit, OnOneNodeTheWorkerIsTheBatchScript) {
    spec::PilotQueue q = queue();
    q.nodes = 1;
    const Command command = submit_command(q, "k", kSite);
    EXPECT_EQ(std::ranges::count(command.arguments, "--signal=B:TERM@120"), 1);
    EXPECT_NE(command.input.find("\nexec '/opt/roll/bin/roll-worker' --dir"), std::string::npos);
    EXPECT_EQ(command.input.find("srun"), std::string::npos);
}

TEST(Submit, AShortAllocationHandsOverInItsLastQuarter) {
    spec::PilotQueue q = queue();
    q.time = std::chrono::seconds(61);
    const Command command = submit_command(q, "k", kSite);
    EXPECT_EQ(std::ranges::count(command.arguments, "--time=0-00:02:00"), 1);
    EXPECT_EQ(std::ranges::count(command.arguments, "--signal=TERM@15"), 1);
}

TEST(Cancel, SaysTheNameBesideTheId) {
    const std::vector<std::string> expected = {"scancel", "--name=roll-5f3c.1.2", "81"};
    EXPECT_EQ(cancel_command("81", "5f3c.1.2", kSite).arguments, expected);
}

TEST(Comment, NamesItsOrder) {
    EXPECT_EQ(key_of(comment_of("5f3c.1.2")), "5f3c.1.2");
    EXPECT_EQ(key_of("a user's own"), "");
    EXPECT_EQ(key_of("(null)"), "");
}

TEST(PilotQueue, GoesThroughJson) {
    const spec::PilotQueue q = queue();
    EXPECT_EQ(*spec::pilot_queue_from_json(spec::to_json(q)), q);
}

TEST(PilotQueue, NamesEveryProblem) {
    const auto read = spec::pilot_queue_from_json(
        R"({"name":"a b","time_s":5,"nodes":4,"max_nodes":2,"sbatch_args":["x"],"account":"a\nb"})");
    ASSERT_FALSE(read);
    for (const char* part : {"'a b'", "time is 5 s", "max_nodes is 2", "'x'", "control"})
        EXPECT_NE(read.error().message.find(part), std::string::npos) << read.error().message;
    EXPECT_FALSE(spec::pilot_queue_from_json(R"({"name":"a","time_s":600,"nods":4})"));
}

TEST(Nodes, AreAskedForByNameOnly) {
    const std::vector<std::string> expected = {"scontrol", "--oneliner", "show", "node",
                                               "n1,gpu-7.x_2"};
    EXPECT_EQ(nodes_command({"n1", "gpu-7.x_2"}, kSite).arguments, expected);
    EXPECT_TRUE(is_node_name("gpu-7.x_2"));
    for (const char* name : {"", "-M", "n[1-9]", "n1,n2", "n 1", "n1;", "ALL\n"})
        EXPECT_FALSE(is_node_name(name)) << name;
}

}  // namespace
}  // namespace roll::slurm
