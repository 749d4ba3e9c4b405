#include <algorithm>
#include <fstream>

#include <gtest/gtest.h>

#include "common/files.hpp"
#include "tests/temporary_folder.hpp"
#include "worker/agent/steps/srun_options.hpp"
#include "worker/agent/steps/step.hpp"
#include "worker/agent/steps/task.hpp"

namespace roll::agent {
namespace {

using Texts = std::vector<std::string>;

TEST(Step, TasksAreSpreadOverTheNodes) {
    EXPECT_EQ(spread(5, 3), (std::vector<int>{2, 2, 1}));
    EXPECT_EQ(spread(4, 2), (std::vector<int>{2, 2}));
    EXPECT_EQ(repeated_text({2, 2, 1}), "2(x2),1");
    const auto nodes_of = [](bool cyclic) {
        std::vector<int> nodes;
        for (const Task& task : place_tasks({2, 1}, cyclic)) nodes.push_back(task.node);
        return nodes;
    };
    EXPECT_EQ(nodes_of(false), (std::vector<int>{0, 0, 1}));
    EXPECT_EQ(nodes_of(true), (std::vector<int>{0, 1, 0}));
}

TEST(Step, IsTheSameAfterItsFile) {
    const std::string folder = testing::TempDir() + "steps-" + std::to_string(::getpid());
    ASSERT_EQ(std::system(("mkdir -p " + step_folder(folder, 3)).c_str()), 0);
    EXPECT_FALSE(*read_step(folder, 3));
    Step step;
    step.number = 3;
    step.words = {"echo", "a b"};
    step.environment = {"A=1"};
    step.directory = "/w";
    step.nodes = {"n1", "n2"};
    step.job_nodes = {1, 2};
    step.tasks = place_tasks({2, 1}, false);
    step.tasks[1].output = "/w/out";
    ASSERT_TRUE(write_step(folder, step));
    EXPECT_EQ(**read_step(folder, 3), step);
    const Texts variables = task_variables(step, step.tasks[1]);
    for (const char* one :
         {"SLURM_PROCID=1", "SLURM_LOCALID=1", "SLURM_NODEID=0", "SLURM_GTIDS=0,1",
          "SLURM_NTASKS=3", "SLURM_STEP_ID=3", "SLURM_STEP_NODELIST=n1,n2",
          "SLURM_STEP_TASKS_PER_NODE=2,1", "SLURMD_NODENAME=n1"})
        EXPECT_EQ(std::ranges::count(variables, one), 1) << one;
}

// Returns "NODES:TASKS" of the step, or the error.
std::string plan(const Texts& arguments, const StepSite& site = {{"n1", "n2", "n3"}, 0, 0}) {
    const auto options = read_srun(arguments);
    if (!options) return options.error().message;
    const auto step = plan_step(*options, site);
    if (!step) return step.error().message;
    std::string text;
    for (const std::string& node : step->nodes) text += node + " ";
    return text + std::to_string(step->tasks.size());
}

TEST(Srun, DecidesNodesAndTasks) {
    EXPECT_EQ(plan({"true"}), "n1 n2 n3 3");
    EXPECT_EQ(plan({"true"}, {{"n1", "n2"}, 5, 0}), "n1 n2 5");
    EXPECT_EQ(plan({"true"}, {{"n1", "n2"}, 0, 4}), "n1 n2 8");
    EXPECT_EQ(plan({"-n", "2", "true"}), "n1 n2 2");
    EXPECT_EQ(plan({"-N1", "-n4", "true"}), "n1 4");
    EXPECT_EQ(plan({"-N2", "--ntasks-per-node=3", "true"}), "n1 n2 6");
    EXPECT_EQ(plan({"-w", "n[2-3]", "-N1", "-n1", "true"}), "n2 1");
    EXPECT_EQ(plan({"--exclude=n1", "true"}), "n2 n3 2");
    EXPECT_EQ(plan({"-r", "2", "-N1", "true"}), "n3 1");
    EXPECT_EQ(plan({"-N4", "true"}),
              "srun: nodes that the step needs: 4; nodes of the job that it can use: 3");
    EXPECT_EQ(plan({"-w", "n9", "true"}), "srun: the job has no node n9");
}

TEST(Srun, ReadsOptionsUpToTheProgram) {
    const auto options = read_srun({"-l", "-u", "--export=ALL,A=1", "-K", "--mpi=none", "--gres=0",
                                    "-o", "out", "--cpu-bind=cores", "prog", "-n", "9"});
    ASSERT_FALSE(options.has_value() && options->tasks != 0);
    ASSERT_TRUE(options) << options.error().message;
    EXPECT_EQ(options->words, (Texts{"prog", "-n", "9"}));
    EXPECT_TRUE(options->label && options->unequal_exit_kills);
    EXPECT_EQ(options->output, "out");
    EXPECT_EQ(plan({"--foo", "true"}), "srun: Roll's srun has no option --foo");
    EXPECT_EQ(plan({"-n0", "true"}),
              "srun: --ntasks is \"0\"; allowed: a whole number from 1 to 4096");
    EXPECT_EQ(plan({"-n2000000000", "true"}),
              "srun: --ntasks is \"2000000000\"; allowed: a whole number from 1 to 4096");
    EXPECT_EQ(plan({"--ntasks-per-node=4096", "true"}),
              "srun: the step has 12288 tasks; allowed: at most 4096; set a lower --ntasks");
    EXPECT_EQ(plan({"--pty", "bash"}),
              "srun: --pty: a batch script has no terminal; open one with rollctl shell JOB");
    EXPECT_TRUE(plan({"--container-save=a", "true"})
                    .starts_with("srun: --container-save: Roll writes no images; "));
    EXPECT_EQ(
        plan({"--container-name=a:exec", "true"}),
        "srun: --container-name is \"a:exec\"; allowed: 1 to 64 letters, digits, dots, hyphens "
        "and underscores");
    EXPECT_EQ(plan({"--mpi=pmix", "a"}),
              "srun: --mpi=pmix: Roll has no PMI server; use mpirun --hostfile $ROLL_HOSTFILE");
    EXPECT_EQ(plan({"--gpus-per-task=1", "a"}).substr(0, 57),
              "srun: --gpus-per-task: the tasks of a step see all GPUs t");
    EXPECT_EQ(plan({"-n", "2"}), "srun: no program is given; write it after the options");
    EXPECT_EQ(plan({"-n"}), "srun: -n needs a value");
}

TEST(Srun, ReadsTheOptionsOfPyxis) {
    const auto read = read_srun({"--container-image=nvcr.io#nvidia/pytorch:24.01-py3",
                                 "--container-mounts=/data:/d:ro,/x", "--container-workdir=/d",
                                 "--no-container-mount-home", "--container-env=A", "true"});
    ASSERT_TRUE(read) << read.error().message;
    ASSERT_TRUE(read->container);
    EXPECT_EQ(read->container->image, "nvcr.io/nvidia/pytorch:24.01-py3");
    EXPECT_EQ(read->container->binds, (Texts{"/data:/d:ro", "/x:/x"}));
    EXPECT_EQ(read->container->workdir, "/d");
    EXPECT_EQ(read_srun({"--container-image=/a.sqsh", "a"})->container->runtime, "enroot");
    EXPECT_FALSE(read_srun({"--container-mounts=/a", "true"})->container)
        << "pyxis ignores the others without an image";
    const auto named = read_srun({"--container-name=a.1:auto", "true"});
    ASSERT_TRUE(named) << named.error().message;
    EXPECT_EQ(named->container->name, "a.1");
    EXPECT_TRUE(plan({"--container-image=a#", "true"})
                    .starts_with("srun: --container-image is \"a#\"; allowed: [REGISTRY#]IMAGE"));
    EXPECT_TRUE(plan({"--container-image=a", "--container-mounts=x", "true"})
                    .starts_with("srun: --container-mounts is \"x\"; allowed: SRC:DST, "));
}

// Podman and Enroot have one list for the files of named containers and the containers of tasks.
TEST(Tasks, ANamedContainerDoesNotHaveTheNameOfATasksContainer) {
    const TemporaryFolder folder;
    std::ofstream(folder / "podman") << "#!/bin/sh\necho \"$@\" >> " << (folder / "words").string();
    std::filesystem::permissions(folder / "podman", std::filesystem::perms::owner_all);
    const Task task;
    Step step;
    step.number = 1;
    step.words = {"true"};
    step.directory = "/";
    step.container = Container{.image = "i", .name = "1-0"};
    step.nodes = {"n1"};
    step.job_nodes = {0};
    step.tasks = {task};
    RunningTasks tasks;
    ASSERT_TRUE(tasks.start(folder, step, task,
                            {"PATH=" + folder.string() + ":/usr/bin:/bin", "ROLL_JOB=7",
                             "ROLL_TOKEN=2", "ROLL_WORKER=s"},
                            true));
    while (!tasks.none()) tasks.reap();
    const std::string words = read_file(folder / "words").value_or("");
    EXPECT_TRUE(words.starts_with("container exists roll-7-2-step-named-1-0-s\n")) << words;
    EXPECT_NE(words.find(" --name=roll-7-2-step-1-0-s "), std::string::npos) << words;
}

TEST(Hosts, AreExpanded) {
    EXPECT_EQ(expand_hosts("n[1-3,7],m1"), (Texts{"n1", "n2", "n3", "n7", "m1"}));
    EXPECT_EQ(expand_hosts("n[08-10]x"), (Texts{"n08x", "n09x", "n10x"}));
    for (const char* bad : {"", "n[1", "n[a-b]", "a,,b", "n[0-99999999]"})
        EXPECT_EQ(expand_hosts(bad), Texts()) << bad;
}

}  // namespace
}  // namespace roll::agent
