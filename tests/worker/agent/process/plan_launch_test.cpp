#include <algorithm>

#include <gtest/gtest.h>

#include "common/protocol/rank.hpp"
#include "worker/agent/process/launch.hpp"

namespace roll::agent {
namespace {

protocol::StartOrder order(const std::string& kind) {
    protocol::StartOrder order;
    order.attempt = {.job = {7}, .token = {3, 2}};
    order.kind = kind;
    order.document = "{}";
    order.output = "/runs/a-7";
    order.node_rank = 1;
    order.nodes = 2;
    order.ranks_per_node = 2;
    order.slots = {0, 3};
    return order;
}

LaunchSite site() {
    return {.programs = "/opt/roll/bin",
            .cores = 16,
            .slots = 4,
            .gpus = 0,
            .session = "s1",
            .environment = {"HOME=/root", "PATH=/bin"}};
}

bool has(const Program& program, const std::string& variable) {
    return std::ranges::find(program.environment, variable) != program.environment.end();
}

bool names(const Program& program, const std::string& name) {
    return std::ranges::any_of(program.environment, [&](const std::string& variable) {
        return variable.starts_with(name + "=");
    });
}

TEST(PlanLaunch, AScriptIsWrittenAndStartedByItsFirstLine) {
    auto script = order("command");
    script.document = R"({"command": ["a.sh", "x y"], "workdir": "/w",
                          "script": "#! /usr/bin/env -S python3 -u \nprint(1)\n"})";
    const auto plan = plan_launch(script, site());
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->launch_file, "/runs/a-7/logs/attempt-2/script-1");
    EXPECT_EQ(plan->launch, "#! /usr/bin/env -S python3 -u \nprint(1)\n");
    EXPECT_EQ(
        plan->programs[0].arguments,
        (std::vector<std::string>{"/usr/bin/env", "-S python3 -u", plan->launch_file, "x y"}));
    script.document = R"({"command": ["a.sh"], "script": "#!/bin/sh"})";
    EXPECT_EQ(plan_launch(script, site())->programs[0].arguments[0], "/bin/sh");
    script.document = R"({"command": ["a.sh"], "script": "l"})";
    EXPECT_EQ(plan_launch(script, site())->programs[0].arguments[0], "/bin/sh");
}

TEST(PlanLaunch, ARankOfSeveralSlotsHasTheirThreadsAndCpus) {
    auto train = order("train");
    train.ranks_per_node = 1;
    LaunchSite node = site();
    node.slot_cpus = {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}};
    const auto plan = plan_launch(train, node);
    ASSERT_TRUE(plan);
    ASSERT_EQ(plan->programs.size(), 1u);
    EXPECT_TRUE(has(plan->programs[0], "OMP_NUM_THREADS=8")) << "two of four slots of 16 cores";
    EXPECT_EQ(plan->programs[0].cpus, (std::vector<int>{0, 1, 2, 3, 12, 13, 14, 15}));
    train.ranks_per_node = 2;
    EXPECT_TRUE(has(plan_launch(train, node)->programs[0], "OMP_NUM_THREADS=4"));
    train.cpus = 6;
    EXPECT_TRUE(has(plan_launch(train, node)->programs[0], "OMP_NUM_THREADS=3"));
}

TEST(PlanLaunch, ABatchScriptRunsOnTheFirstNodeWithSlurmsVariables) {
    auto batch = order("command");
    batch.node_rank = 0;
    batch.tasks_per_node = 1;
    batch.hosts = {"n1.a3", "n2.a3"};
    batch.gpus = {0, 1};
    batch.time_limit_seconds = 600;
    batch.document = R"({"command": ["a.sh", "x"], "name": "a", "workdir": "/w", "array": "3-7:2%1",
        "script": "#!/bin/sh", "stdout": "slurm-%A_%a.out", "env": {"ROLL_ARRAY_INDEX": "5"},
        "secrets": ["TOKEN"], "sbatch": {"ntasks": 3, "cpus_per_task": 2, "mem_per_cpu": 100,
     "name": "a b", "submit_dir": "/w", "signal": {"number": 10, "before": 60, "script": true}}})";
    LaunchSite pilot = site();
    pilot.node = "n1.a3";
    pilot.environment = {"SLURMD_NODENAME=n1", "SLURM_JOB_ID=99", "SLURM_STEP_ID=0", "USER=me"};
    const auto plan = plan_launch(batch, pilot);
    ASSERT_TRUE(plan) << plan.error().message;
    const Program& first = plan->programs[0];
    for (const char* one : {"SLURM_JOB_ID=7",
                            "SLURM_JOB_NAME=a b",
                            "SLURM_JOB_NODELIST=n1,n2",
                            "SLURM_NNODES=2",
                            "SLURM_NTASKS=3",
                            "SLURM_TASKS_PER_NODE=2,1",
                            "SLURM_CPUS_PER_TASK=2",
                            "SLURM_MEM_PER_CPU=100",
                            "SLURM_CPUS_ON_NODE=2",
                            "SLURM_JOB_CPUS_PER_NODE=2(x2)",
                            "SLURM_JOB_GPUS=0,1",
                            "SLURM_SUBMIT_DIR=/w",
                            "SLURM_ARRAY_JOB_ID=6",
                            "SLURM_ARRAY_TASK_ID=5",
                            "SLURM_ARRAY_TASK_MIN=3",
                            "SLURM_ARRAY_TASK_MAX=7",
                            "SLURM_ARRAY_TASK_COUNT=3",
                            "SLURM_ARRAY_TASK_STEP=2",
                            "SLURM_RESTART_COUNT=1",
                            "SLURM_JOB_USER=me",
                            "ROLL_PILOT_SLURM_JOB_ID=99",
                            "ROLL_SECRETS=TOKEN",
                            "SLURMD_NODENAME=n1"})
        EXPECT_TRUE(has(first, one)) << one;
    EXPECT_FALSE(names(first, "RANK"));
    EXPECT_EQ(
        first.arguments,
        (std::vector<std::string>{
            "/opt/roll/bin/roll-worker", "batch", "--folder=/runs/a-7/logs/attempt-2/steps",
            "--truncate=/w/slurm-6_5.out", "--signal=10", "--signal-after=540", "--to-script",
            "--unset=SLURM_STEP_ID", "--", "/bin/sh", "/runs/a-7/logs/attempt-2/script-0", "x"}));
    batch.node_rank = 1;
    EXPECT_EQ(plan_launch(batch, pilot)->programs[0].arguments,
              (std::vector<std::string>{"/opt/roll/bin/roll-worker", "steps",
                                        "--folder=/runs/a-7/logs/attempt-2/steps", "--node=1"}));
}

TEST(PlanLaunch, SecretsAreInTheEnvironmentOfTheProgramsAlone) {
    LaunchSite where = site();
    where.check = {"/site/check"};
    auto command = order("command");
    command.document = R"({"command": ["a"], "check": {"command": ["/job/check"]}})";
    auto train = order("train");
    train.document = command.document;
    for (protocol::StartOrder* one : {&command, &train}) {
        one->secrets = {{"TOKEN", "s3cret"}};
        const auto plan = plan_launch(*one, where);
        ASSERT_TRUE(plan);
        for (const Program& program : plan->programs) EXPECT_TRUE(has(program, "TOKEN=s3cret"));
        ASSERT_EQ(plan->checks.size(), 2u);
        for (const NodeCheck& check : plan->checks) EXPECT_FALSE(names(check.program, "TOKEN"));
        EXPECT_EQ(plan->launch.find("s3cret"), std::string::npos) << "that is a file";
    }
}

TEST(PlanLaunch, TokenizingIsOneProgramWithTheThreadsOfAllSlots) {
    const auto plan = plan_launch(order("tokenize"), site());
    ASSERT_TRUE(plan);
    ASSERT_EQ(plan->programs.size(), 1u);
    EXPECT_EQ(plan->programs[0].arguments,
              (std::vector<std::string>{"/opt/roll/bin/roll-rank", "--launch",
                                        "/runs/a-7/logs/attempt-2/launch-1.json"}));
    EXPECT_TRUE(has(plan->programs[0], "OMP_NUM_THREADS=8"));
    EXPECT_EQ(plan->directories,
              (std::vector<std::string>{"/runs/a-7", "/runs/a-7/logs/attempt-2"}));
}

TEST(PlanLaunch, OnlyAWorkerThatAllowsFaultsTellsTheRanksSo) {
    LaunchSite where = site();
    for (const bool allowed : {false, true}) {
        where.allow_faults = allowed;
        const auto launch = protocol::decode_launch(plan_launch(order("train"), where)->launch);
        ASSERT_TRUE(launch);
        EXPECT_EQ(launch->allow_faults, allowed);
    }
}

TEST(PlanLaunch, TrainingIsARankEachSlotByItsGlobalNumber) {
    const auto plan = plan_launch(order("train"), site());
    ASSERT_TRUE(plan);
    ASSERT_EQ(plan->programs.size(), 2u);
    EXPECT_TRUE(plan->own_programs);
    EXPECT_EQ(plan->programs[1].arguments,
              (std::vector<std::string>{"/opt/roll/bin/roll-rank", "--launch",
                                        "/runs/a-7/logs/attempt-2/launch-1.json", "--rank", "3"}));
    EXPECT_EQ(plan->programs[1].log, "/runs/a-7/logs/attempt-2/rank-3.log");
    EXPECT_EQ(plan->directories, (std::vector<std::string>{"/runs/a-7", "/runs/a-7/logs/attempt-2",
                                                           "/runs/a-7/checkpoints"}));
    const auto launch = protocol::decode_launch(plan->launch);
    ASSERT_TRUE(launch);
    EXPECT_EQ(launch->world_size(), 4);
    EXPECT_EQ(launch->logs, "/runs/a-7/logs/attempt-2");
    EXPECT_EQ(launch->attempt.token, (Token{3, 2}));
}

TEST(PlanLaunch, RanksOfANodeShareALogIfTheJobSaysSo) {
    auto shared = order("train");
    shared.document = R"({"log_files": "node"})";
    const auto plan = plan_launch(shared, site());
    ASSERT_EQ(plan->programs.size(), 2u);
    for (const Program& program : plan->programs)
        EXPECT_EQ(program.log, "/runs/a-7/logs/attempt-2/rank-2.log");
}

TEST(PlanLaunch, ConversionIsOneProgram) {
    const auto plan = plan_launch(order("merge"), site());
    ASSERT_TRUE(plan);
    ASSERT_EQ(plan->programs.size(), 1u);
    EXPECT_EQ(plan->programs[0].arguments[0], "/opt/roll/bin/roll-convert");
    EXPECT_EQ(protocol::decode_launch(plan->launch)->ranks_per_node, 1);
}

TEST(PlanLaunch, ThreadsAreTheCoresOfTheSlotsUnlessSet) {
    EXPECT_TRUE(has(plan_launch(order("train"), site())->programs[0], "OMP_NUM_THREADS=4"));
    EXPECT_TRUE(has(plan_launch(order("convert"), site())->programs[0], "OMP_NUM_THREADS=8"));
    LaunchSite set = site();
    set.environment = {"OMP_NUM_THREADS=3"};
    EXPECT_FALSE(names(plan_launch(order("train"), set)->programs[0], "OMP_NUM_THREADS"));
    set = site();
    set.cores = 1;
    EXPECT_TRUE(has(plan_launch(order("train"), set)->programs[0], "OMP_NUM_THREADS=1"));
}

TEST(PlanLaunch, OurProgramsThreadsSleepSoonUnlessToldOtherwise) {
    EXPECT_TRUE(has(plan_launch(order("train"), site())->programs[0], "GOMP_SPINCOUNT=1000"));
    auto command = order("command");
    command.document = R"({"command": ["a"]})";
    EXPECT_FALSE(names(plan_launch(command, site())->programs[0], "GOMP_SPINCOUNT"));
    for (const char* told : {"GOMP_SPINCOUNT=7", "OMP_WAIT_POLICY=active"}) {
        LaunchSite set = site();
        set.environment = {told};
        EXPECT_FALSE(names(plan_launch(order("train"), set)->programs[0], "GOMP_SPINCOUNT"));
    }
}

TEST(PlanLaunch, ARankRunsOnTheCpusOfItsSlotAndOtherProgramsOnAllOfTheirs) {
    LaunchSite bound = site();
    bound.slot_cpus = {{0, 8}, {1, 9}, {2, 10}, {3, 11}};
    const auto ranks = plan_launch(order("train"), bound)->programs;
    EXPECT_EQ(ranks[0].cpus, (std::vector<int>{0, 8}));
    EXPECT_EQ(ranks[1].cpus, (std::vector<int>{3, 11}));
    EXPECT_EQ(plan_launch(order("merge"), bound)->programs[0].cpus,
              (std::vector<int>{0, 8, 3, 11}));
    EXPECT_TRUE(plan_launch(order("train"), site())->programs[0].cpus.empty());
}

TEST(PlanLaunch, GpusAreShownByNumberAndHiddenFromJobsWithoutAny) {
    EXPECT_FALSE(names(plan_launch(order("train"), site())->programs[0], "CUDA_VISIBLE_DEVICES"));
    LaunchSite gpus = site();
    gpus.gpus = 8;
    EXPECT_TRUE(has(plan_launch(order("train"), gpus)->programs[0], "CUDA_VISIBLE_DEVICES="));
    protocol::StartOrder two = order("train");
    two.gpus = {2, 5};
    EXPECT_TRUE(has(plan_launch(two, gpus)->programs[0], "CUDA_VISIBLE_DEVICES=2,5"));
    EXPECT_EQ(plan_launch(two, gpus)->programs[0].arguments[0], "/opt/roll/bin/roll-rank-cuda");
    gpus.gpu_names = {"0", "1", "GPU-a", "3", "4", "MIG-b"};
    EXPECT_TRUE(has(plan_launch(two, gpus)->programs[0], "CUDA_VISIBLE_DEVICES=GPU-a,MIG-b"));
}

TEST(PlanLaunch, GpusMustBeAboutAsFreeAsWhenTheWorkerBegan) {
    LaunchSite gpus = site();
    gpus.gpus = 3;
    protocol::StartOrder two = order("train");
    two.gpus = {0, 2};
    // the memory that was in use at the start is unknown
    EXPECT_TRUE(plan_launch(two, gpus)->gpus.empty());
    gpus.gpu_names = {"0", "1", "MIG-b"};
    gpus.gpu_used_bytes = {100, 0, 7};
    const std::vector<GpuRoom> room = {{"0", 100 + (512 << 20)}, {"MIG-b", 7 + (512 << 20)}};
    EXPECT_EQ(plan_launch(two, gpus)->gpus, room);
    EXPECT_EQ(decode_guard_plan(encode(*plan_launch(two, gpus)))->gpus, room);
}

TEST(PlanLaunch, TheBuiltinCheckNamesTheGpusAndLinksOfThisNode) {
    LaunchSite gpus = site();
    gpus.gpus = 8;
    gpus.links = {"eth0", "mlx5_0/1"};
    auto two = order("train");
    two.document = R"({"check": "builtin"})";
    two.gpus = {2, 5};
    const auto checks = plan_launch(two, gpus)->checks;
    ASSERT_EQ(checks.size(), 1u);
    EXPECT_FALSE(checks[0].site);
    EXPECT_EQ(checks[0].program.arguments,
              (std::vector<std::string>{"/opt/roll/bin/roll-worker", "--check-node", "/runs/a-7",
                                        "--gpus", "8", "--check-gpu=2", "--check-gpu=5",
                                        "--check-link=eth0", "--check-link=mlx5_0/1"}));
    gpus.check = {"builtin"};
    two.document = "{}";
    const auto sites = plan_launch(two, gpus)->checks;
    ASSERT_EQ(sites.size(), 1u);
    EXPECT_TRUE(sites[0].site);
    EXPECT_EQ(sites[0].program.arguments[2], "/tmp");
}

TEST(PlanLaunch, WhoSharesAGpuIsToldItsPartAndDoesNotWaitForItsMemory) {
    LaunchSite gpus = site();
    gpus.gpus = 1;
    gpus.gpu_used_bytes = {100};
    protocol::StartOrder half = order("command");
    half.document = R"({"command": ["true"], "env": {}})";
    half.gpus = {0};
    half.gpu_percent = 5;
    const auto plan = plan_launch(half, gpus);
    EXPECT_TRUE(plan->gpus.empty());
    EXPECT_TRUE(has(plan->programs[0], "CUDA_VISIBLE_DEVICES=0"));
    EXPECT_TRUE(has(plan->programs[0], "ROLL_GPU_FRACTION=0.05"));
    EXPECT_TRUE(has(plan->programs[0], "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=5"));
    half.gpu_percent = 100;
    EXPECT_FALSE(names(plan_launch(half, gpus)->programs[0], "ROLL_GPU_FRACTION"));
    EXPECT_EQ(plan_launch(half, gpus)->gpus.size(), 1u);
}

TEST(PlanLaunch, ACommandRunsAsItStandsInItsOwnPlace) {
    protocol::StartOrder command = order("command");
    command.document =
        R"({"command": ["sh", "-c", "exit 0"], "env": {"A": "b c", "HOME": "/x"}, "workdir": "/w"})";
    const auto plan = plan_launch(command, site());
    ASSERT_TRUE(plan) << plan.error().message;
    ASSERT_EQ(plan->programs.size(), 1u);
    const Program& program = plan->programs[0];
    EXPECT_FALSE(plan->own_programs);
    EXPECT_TRUE(plan->launch_file.empty());
    // no directory for logs, because the log is created at the first output
    EXPECT_EQ(plan->directories, std::vector<std::string>{"/runs/a-7"});
    EXPECT_EQ(program.arguments, (std::vector<std::string>{"sh", "-c", "exit 0"}));
    EXPECT_EQ(program.directory, "/w");
    EXPECT_EQ(program.log, "/runs/a-7/logs/attempt-2/rank-1.log");
    for (const char* variable : {"A=b c", "HOME=/x", "ROLL_JOB=7", "ROLL_TOKEN=3-2",
                                 "ROLL_OUTPUT=/runs/a-7", "ROLL_NODE_RANK=1", "ROLL_NODES=2"})
        EXPECT_TRUE(has(program, variable)) << variable;
}

TEST(PlanLaunch, AGangIsAProgramForEachTaskWithItsRank) {
    protocol::StartOrder gang = order("command");
    gang.document = R"({"command": ["a"], "env": {"LOCAL_RANK": "mine"}})";
    gang.tasks_per_node = 2;
    gang.hosts = {"n1", "n2"};
    gang.nonce = "cafe";
    LaunchSite where = site();
    where.address = "10.0.0.2";
    const auto plan = plan_launch(gang, where);
    ASSERT_TRUE(plan) << plan.error().message;
    ASSERT_EQ(plan->programs.size(), 2u);
    for (const char* variable :
         {"RANK=3", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=1", "LOCAL_RANK=mine",
          "ROLL_NODELIST=n1,n2", "ROLL_HOSTFILE=/runs/a-7/logs/attempt-2/hosts-1"})
        EXPECT_TRUE(has(plan->programs[1], variable)) << variable;
    EXPECT_TRUE(has(plan->programs[0], "RANK=2"));
    EXPECT_EQ(plan->programs[1].log, "/runs/a-7/logs/attempt-2/rank-3.log");
    ASSERT_TRUE(plan->gang);
    EXPECT_FALSE(plan->gang->first);
    EXPECT_EQ(plan->gang->hosts, "n1 slots=2\nn2 slots=2\n");
    EXPECT_EQ(plan->gang->meeting, "/runs/a-7/logs/attempt-2/meeting-cafe.json");
    EXPECT_EQ(plan->gang->address, "10.0.0.2");
    EXPECT_EQ(decode_guard_plan(encode(*plan)).value(), *plan);
    gang.tasks_per_node = 0;
    const auto alone = plan_launch(gang, where);
    EXPECT_FALSE(alone->gang);
    EXPECT_FALSE(names(alone->programs.at(0), "RANK"));
}

TEST(PlanLaunch, TheLogsOfACommandHaveTheNamesThatItGives) {
    protocol::StartOrder command = order("command");
    command.document = R"({"command": ["a"], "env": {"ROLL_ARRAY_INDEX": "9"}, "array": "5-9:2%2",
                          "name": "x", "workdir": "/w", "stdout": "%x-%A_%3a-%N.%r",
                          "stderr": "/e/%j-%s"})";
    LaunchSite where = site();
    where.node = "n2";
    command.tasks_per_node = 2;
    auto plan = plan_launch(command, where);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan->programs[1].log, "/w/x-5_009-n2.3") << "job 7 is the third of its array";
    EXPECT_EQ(plan->programs[1].link, "/runs/a-7/logs/attempt-2/rank-3.log");
    EXPECT_EQ(plan->programs[1].error_log, "") << "only rank 0 writes to one file for all";
    EXPECT_EQ(decode_guard_plan(encode(*plan)).value(), *plan);
    command.node_rank = 0;
    plan = plan_launch(command, where);
    EXPECT_EQ(plan->programs[0].error_log, "/e/7-batch");
    EXPECT_EQ(plan->programs[1].error_log, "");
    command.document = R"({"command": ["a"], "env": {}, "stdout": "/o", "stderr": "/o"})";
    plan = plan_launch(command, where);
    EXPECT_EQ(plan->programs[0].log, "/o");
    EXPECT_EQ(plan->programs[0].error_log, "") << "the same file has one writer";
    EXPECT_EQ(plan->programs[1].log, "/runs/a-7/logs/attempt-2/rank-1.log");
}

TEST(PlanLaunch, SetupAndModulesRunInTheShellThatBecomesTheProgram) {
    protocol::StartOrder command = order("command");
    command.document = R"({"command": ["a", "b c"], "env": {}, "setup": "export X=1"})";
    auto run = plan_launch(command, site())->programs[0].arguments;
    const std::string end = "set +e\nroll_ready=1\ntrap - EXIT\nexec \"$@\"";
    EXPECT_TRUE(run.at(2).ends_with("trap roll_end EXIT\nset -e\n\nexport X=1\n" + end)) << run[2];
    command.document = R"({"command": ["a"], "env": {}, "modules": ["gcc/12", "cuda"]})";
    run = plan_launch(command, site())->programs[0].arguments;
    EXPECT_EQ(run[2], R"(exec /bin/bash -lc "$0" roll "$PATH" "$LOADEDMODULES" "$@")");
    EXPECT_TRUE(run[3].starts_with("PATH=$1\n[ \"$LOADEDMODULES\" = \"$2\" ] || module rel"));
    EXPECT_TRUE(run[3].ends_with("set -e\nmodule load 'gcc/12' 'cuda'\n\n" + end)) << run[3];
    EXPECT_EQ(run.back(), "a");
}

// Returns the arguments of a command in a container; the attempt has GPU 0 and the secret S.
std::vector<std::string> in_container(const std::string& container, const std::string& runtime) {
    protocol::StartOrder command = order("command");
    command.gpus = {0};
    command.secrets = {{"S", "hidden"}};
    command.document = R"({"command": ["a", "b c"], "workdir": "/w", "env": {"X": "1"},
                           "container": )" +
                       container + "}";
    LaunchSite here = site();
    here.node = "n1";
    here.container_runtimes = {{runtime, "/bin/" + runtime}};
    const auto plan = plan_launch(command, here);
    if (!plan) return {plan.error().message};
    EXPECT_EQ(plan->after.size(), runtime == "podman" ? 1 : 0);
    EXPECT_TRUE(has(plan->programs[0], "S=hidden"));
    auto words = plan->programs[0].arguments;
    std::erase_if(words, [](const std::string& word) {
        return word.starts_with("--env=ROLL_") || word == "--env=OMP_NUM_THREADS" ||
               word == "--env=CUDA_VISIBLE_DEVICES";
    });
    return words;
}

TEST(PlanLaunch, EachRuntimeOfContainersHasItsCommandLine) {
    using Words = std::vector<std::string>;
    EXPECT_EQ(in_container(R"({"image": "i", "binds": ["/d:/e:ro"]})", "podman"),
              (Words{"/bin/podman",
                     "run",
                     "--rm",
                     "--name=roll-7-3-2-1-s1",
                     "--init",
                     "--interactive",
                     "--network=host",
                     "--ipc=host",
                     "--entrypoint=",
                     "--cgroups=disabled",
                     "--no-healthcheck",
                     "--log-driver=none",
                     "--security-opt=label=disable",
                     "--userns=keep-id",
                     "--device=nvidia.com/gpu=all",
                     "--volume=/d:/e:ro",
                     "--volume=/runs/a-7:/runs/a-7",
                     "--volume=/w:/w",
                     "--workdir=/w",
                     "--env=MASTER_ADDR",
                     "--env=MASTER_PORT",
                     "--env=S",
                     "--env=X",
                     "i",
                     "a",
                     "b c"}));
    EXPECT_EQ(in_container(R"({"image": "i", "workdir": "/v"})", "apptainer"),
              (Words{"/bin/apptainer", "exec", "--nv", "--bind=/runs/a-7:/runs/a-7", "--bind=/w:/w",
                     "--pwd=/v", "docker://i", "a", "b c"}));
    EXPECT_EQ(in_container(R"({"image": "i.sqsh", "binds": ["/d"]})", "enroot"),
              (Words{"/bin/enroot", "start", "--rw", "--mount=/d:/d:none:x-create=auto,rbind",
                     "--mount=/runs/a-7:/runs/a-7:none:x-create=auto,rbind",
                     "--mount=/w:/w:none:x-create=auto,rbind", "--env=MASTER_ADDR",
                     "--env=MASTER_PORT", "--env=S", "--env=X", "--env=NVIDIA_VISIBLE_DEVICES=all",
                     "i.sqsh", "/bin/sh", "-c", "cd \"$0\" && exec \"$@\"", "/w", "a", "b c"}));
    EXPECT_EQ(in_container(R"({"image": "i", "runtime": "enroot"})", "podman"),
              (Words{"node n1 cannot run the container i: the PATH of roll-worker (in a step of "
                     "srun, the PATH of the script) has no enroot; install it there and restart "
                     "roll-worker, or submit to another node"}));
}

TEST(PlanLaunch, AContainersRuntimeKeepsItsOwnConfiguration) {
    protocol::StartOrder command = order("command");
    command.document = R"({"command": ["a"], "container": {"image": "i"},
                           "env": {"HOME": "/h", "CONTAINERS_CONF": "/c", "X": "1"}})";
    LaunchSite here = site();
    here.environment = {"HOME=/worker", "LANG=C"};
    here.container_runtimes = {{"podman", "/bin/podman"}};
    const auto plan = plan_launch(command, here);
    ASSERT_TRUE(plan);
    const Program& program = plan->programs[0];
    EXPECT_TRUE(has(program, "X=1"));
    EXPECT_FALSE(has(program, "HOME=/h"));
    EXPECT_FALSE(has(program, "CONTAINERS_CONF=/c"));
    for (const auto& words : {program.arguments, program.enter})
        for (const char* word : {"--env=HOME=/h", "--env=CONTAINERS_CONF=/c", "--env=X"})
            EXPECT_EQ(std::ranges::count(words, word), 1) << word;
    EXPECT_EQ(program.enter.back(), "roll-7-3-2-1-s1") << "the name of the container";
    EXPECT_EQ(plan->after.at(0).environment, std::vector<std::string>{"HOME=/worker"});
}

TEST(PlanLaunch, ACommandWithoutACommandIsRefused) {
    protocol::StartOrder command = order("command");
    EXPECT_FALSE(plan_launch(command, site()));
    command.document = R"({"command": []})";
    EXPECT_EQ(plan_launch(command, site()).error().code, ErrorCode::InvalidArgument);
}

}  // namespace
}  // namespace roll::agent
