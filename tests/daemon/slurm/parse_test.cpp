#include "daemon/slurm/parse.hpp"

#include <random>

#include <gtest/gtest.h>

namespace roll::slurm {
namespace {

// Output of Debian's 22.05.8 on the test cluster.
TEST(Queue, ReadsWhat2205Writes) {
    const auto rows = parse_queue(
        "3|PENDING|PartitionConfig|N/A|N/A|99||(null)\n"
        "2|PENDING|Resources|1795285260|1795285560|2||roll:alloc=5f3c.1.2\n"
        "1|RUNNING|None|1795284660|1795284960|2|n[1-2]|roll:alloc=5f3c.1.1\n");
    ASSERT_TRUE(rows);
    ASSERT_EQ(rows->size(), 3U);
    EXPECT_EQ((*rows)[0].phase, Phase::Pending);
    EXPECT_FALSE((*rows)[0].start);
    EXPECT_EQ((*rows)[1].reason, "Resources");
    const QueueRow running{"1",        "RUNNING", Phase::Running,       "None", 1795284660,
                           1795284960, 2,         "roll:alloc=5f3c.1.1"};
    EXPECT_EQ((*rows)[2], running);
}

// Output of Debian's 24.11.5 and 26.05.5 on the same cluster.
TEST(Queue, ReadsWhat2411And2605Write) {
    for (const std::int64_t now : {1795339604, 1795339647}) {
        const std::string start = std::to_string(now), end = std::to_string(now + 300);
        const auto rows =
            parse_queue("1|CANCELLED|None|1795339603|" + start + "|2|n[1-2]|roll:alloc=x.1.0\n" +
                        "4|PENDING|Resources|" + end + "|" + std::to_string(now + 600) +
                        "|1||roll:alloc=x.1.3\n"
                        "5_[0-9%2]|PENDING|JobHeldUser|N/A|N/A|1||roll:alloc=x.1.4\n"
                        "2|RUNNING|None|" +
                        start + "|" + end + "|8|n[1-8]|roll:alloc=x.1.1\n");
        ASSERT_TRUE(rows);
        ASSERT_EQ(rows->size(), 4U);
        EXPECT_EQ((*rows)[0].phase, Phase::Ended);
        EXPECT_EQ((*rows)[1].start, now + 300);
        EXPECT_EQ((*rows)[2].reason, "JobHeldUser");
        const QueueRow running{"2",       "RUNNING", Phase::Running,    "None", now,
                               now + 300, 8,         "roll:alloc=x.1.1"};
        EXPECT_EQ((*rows)[3], running);
    }
    const auto partitions =
        parse_partitions("gpu|up|7-00:00:00|8|16|gpu:h200:8\nhigh|up|7-00:00:00|8|16|gpu:h200:8\n");
    ASSERT_TRUE(partitions);
    EXPECT_EQ((*partitions)[1].gpus, 8);
    EXPECT_EQ(judge_submission(false, 1,
                               "sbatch: error: invalid partition specified: nope\n"
                               "sbatch: error: Batch job submission failed: Invalid partition name "
                               "specified\n"),
              Submission::Refused);
}

// Made from the documentation of later releases. Has ids of arrays and heterogeneous jobs, joined
// flags, new states, notes.
TEST(Queue, ReadsWhatLaterReleasesMayWrite) {
    const auto rows = parse_queue(
        "71_[0-9%2]|PENDING|JobArrayTaskLimit|N/A|N/A|1||\n"
        "860+1|COMPLETING|None|1|2|1|n1|a|b\n"
        "9|EXPEDITING|BeginTime|N/A|N/A|1||x\n"
        "10|RUNNING,SIGNALING|None|1|Unknown|1|n1|roll:alloc=k\n"
        "11|SOMETHING_NEW|None|1|2|1|n1|roll:alloc=l\n");
    ASSERT_TRUE(rows);
    EXPECT_EQ((*rows)[1].phase, Phase::Ending);
    EXPECT_EQ((*rows)[1].comment, "a|b");
    EXPECT_EQ((*rows)[2].phase, Phase::Pending);
    EXPECT_EQ((*rows)[3].phase, Phase::Running);
    EXPECT_FALSE((*rows)[3].end);
    EXPECT_EQ((*rows)[4].phase, Phase::Unknown);
}

TEST(Queue, AnEmptyAnswerIsAnAnswer) { EXPECT_TRUE(parse_queue("")->empty()); }

TEST(Queue, CutOutputIsNotBelieved) {
    const std::string whole = "1|RUNNING|None|1|2|1|n1|roll:alloc=a\n2|RUNNING|None|1|2|1|n2|b\n";
    ASSERT_TRUE(parse_queue(whole));
    for (std::size_t end = 1; end < whole.size(); ++end) {
        if (whole[end - 1] == '\n') continue;  // output that is cut between rows looks complete
        EXPECT_FALSE(parse_queue(whole.substr(0, end))) << end;
    }
}

TEST(Queue, TextThatIsNoRowIsNotBelieved) {
    EXPECT_FALSE(parse_queue("slurm_load_jobs error: Socket timed out\n"));
    EXPECT_FALSE(parse_queue("1|RUNNING|None|1|2|1|n1|roll:alloc=a\nnot a row\n"));
    EXPECT_FALSE(parse_queue("1|RUNNING|None|1|2|many|n1|x\n"));
}

TEST(Queue, WhatIsToldOfJunkIsPlainText) {
    EXPECT_EQ(parse_queue("\x1b[2J1|\xff").error().message,
              "squeue's output was cut: it ends with ?[2J1|?");
    EXPECT_EQ(parse_submitted("\x07 12\n").error().message,
              "sbatch wrote an unexpected line: ? 12");
}

TEST(Queue, AForeignCommentMayHoldNewlines) {
    const auto rows = parse_queue("1|RUNNING|None|1|2|1|n1|two\nlines\n2|PENDING|x|1|2|1||c\n");
    ASSERT_TRUE(rows);
    EXPECT_EQ(rows->size(), 2U);
}

TEST(Queue, RandomBytesNeverCrash) {
    std::mt19937 random(1);
    const std::string letters = "1|RUNNING\n,:-;+ \x7f\xff";
    for (int i = 0; i < 20'000; ++i) {
        std::string text(random() % 60, ' ');
        for (char& c : text) c = letters[random() % letters.size()];
        if (const auto rows = parse_queue(text)) {
            for (const QueueRow& row : *rows) EXPECT_FALSE(row.id.empty());
        }
        parse_partitions(text).has_value();
        parse_submitted(text).has_value();
        parse_nodes(text).has_value();
    }
}

TEST(States, EveryStateHasAPhase) {
    const std::map<std::string, Phase> expected = {{"BOOT_FAIL", Phase::Ended},
                                                   {"CANCELLED", Phase::Ended},
                                                   {"COMPLETED", Phase::Ended},
                                                   {"DEADLINE", Phase::Ended},
                                                   {"FAILED", Phase::Ended},
                                                   {"NODE_FAIL", Phase::Ended},
                                                   {"OUT_OF_MEMORY", Phase::Ended},
                                                   {"PENDING", Phase::Pending},
                                                   {"PREEMPTED", Phase::Ended},
                                                   {"RUNNING", Phase::Running},
                                                   {"SUSPENDED", Phase::Running},
                                                   {"TIMEOUT", Phase::Ended},
                                                   {"COMPLETING", Phase::Ending},
                                                   {"CONFIGURING", Phase::Pending},
                                                   {"LAUNCH_FAILED", Phase::Pending},
                                                   {"REQUEUED", Phase::Pending},
                                                   {"REQUEUE_HOLD", Phase::Pending},
                                                   {"REQUEUE_FED", Phase::Pending},
                                                   {"RESIZING", Phase::Running},
                                                   {"REVOKED", Phase::Ended},
                                                   {"SIGNALING", Phase::Running},
                                                   {"SPECIAL_EXIT", Phase::Pending},
                                                   {"STAGE_OUT", Phase::Ending},
                                                   {"STOPPED", Phase::Running},
                                                   {"POWER_UP_NODE", Phase::Pending},
                                                   {"RECONFIG_FAIL", Phase::Pending},
                                                   {"EXPEDITING", Phase::Pending},
                                                   {"RESV_DEL_HOLD", Phase::Pending},
                                                   {"CANCELLED by 1000", Phase::Ended},
                                                   {"CANCELLED+", Phase::Ended},
                                                   {"R", Phase::Running},
                                                   {"CG", Phase::Ending},
                                                   {"", Phase::Unknown},
                                                   {"RUN", Phase::Unknown}};
    for (const auto& [state, phase] : expected) EXPECT_EQ(phase_of(state), phase) << state;
}

// All results of job_state_string() and job_state_string_compact() in 22.05.8, 23.02.8, 23.11.11,
// 24.05.8, 24.11.7, 25.05.8, 25.11.7 and 26.05.3; EXPEDITING since 25.11. They return "?" for an
// unknown state.
TEST(States, NoStateThatAReleaseWritesIsUnknown) {
    const std::vector<std::string> long_names = {
        "BOOT_FAIL",    "CANCELLED",     "COMPLETED", "COMPLETING",  "CONFIGURING",
        "DEADLINE",     "EXPEDITING",    "FAILED",    "NODE_FAIL",   "OUT_OF_MEMORY",
        "PENDING",      "PREEMPTED",     "REQUEUED",  "REQUEUE_FED", "REQUEUE_HOLD",
        "RESIZING",     "RESV_DEL_HOLD", "REVOKED",   "RUNNING",     "SIGNALING",
        "SPECIAL_EXIT", "STAGE_OUT",     "STOPPED",   "SUSPENDED",   "TIMEOUT"};
    for (const std::string& state : long_names) EXPECT_NE(phase_of(state), Phase::Unknown) << state;
    for (const char* state :
         {"BF", "CA", "CD", "CF", "CG", "DL", "F", "NF", "OOM", "PD", "PR", "R",
          "RD", "RF", "RH", "RQ", "RS", "RV", "S", "SE", "SI",  "SO", "ST", "TO"})
        EXPECT_NE(phase_of(state), Phase::Unknown) << state;
    EXPECT_EQ(phase_of("?"), Phase::Unknown);
}

// A job may be requeued, suspended, held, resized or moved. None of these states may count as an
// end.
TEST(States, NothingThatMayRunAgainIsTakenForAnEnd) {
    for (const char* state :
         {"COMPLETING", "CONFIGURING", "EXPEDITING", "PENDING", "REQUEUED", "REQUEUE_FED",
          "REQUEUE_HOLD", "RESIZING", "RESV_DEL_HOLD", "RUNNING", "SIGNALING", "SPECIAL_EXIT",
          "STAGE_OUT", "STOPPED", "SUSPENDED", "LAUNCH_FAILED", "RECONFIG_FAIL", "?", ""})
        EXPECT_NE(phase_of(state), Phase::Ended) << state;
}

// Output of Debian's 22.05.8 on the test cluster, with SLURM_TIME_FORMAT=%s. The fields that are
// read, and those before them, are the same in the sources of 22.05.8 to 26.05.3.
const std::string kNode =
    "NodeName=n3 Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=16 CPUTot=16 CPULoad=5.39 "
    "AvailableFeatures=(null) ActiveFeatures=(null) Gres=gpu:h200:8 NodeAddr=127.0.0.1 "
    "NodeHostName=localhost Port=20191 Version=22.05.8 OS=Linux 6.1.0-18-amd64 #1 SMP Debian  "
    "RealMemory=16000 AllocMem=0 FreeMem=14898 Sockets=16 Boards=1 State=DOWN ThreadsPerCore=1 "
    "TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=gpu,high  BootTime=1795284005 "
    "SlurmdStartTime=1795370719 LastBusyTime=1795370722 CfgTRES=cpu=16,mem=16000M,billing=16 "
    "AllocTRES= CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s ExtSensorsWatts=0 "
    "ExtSensorsTemp=n/s Reason=power went [root@1795370722]        State=IDLE away\n";

TEST(Nodes, ReadsWhat2205Writes) {
    const auto rows = parse_nodes(kNode + "Node nosuch not found\n");
    ASSERT_TRUE(rows);
    EXPECT_EQ(*rows, (std::vector<NodeRow>{{"n3", "DOWN", true}}));
    EXPECT_TRUE(parse_nodes("")->empty());
}

TEST(Nodes, CutOrOddOutputIsNotBelieved) {
    for (std::size_t end = 1; end < kNode.size(); ++end)
        EXPECT_FALSE(parse_nodes(kNode.substr(0, end))) << end;
    EXPECT_FALSE(parse_nodes("slurm_load_node error: Unable to contact slurm controller\n"));
    EXPECT_FALSE(parse_nodes("NodeName=n1 State=DOWN\n")) << "cut after the state";
    EXPECT_FALSE(parse_nodes(kNode + "the rest of somebody's comment\n"));
}

// Results of node_state_string_complete() of 22.05.8 to 26.05.3: a base state, then flags or the
// signs that sinfo uses.
TEST(Nodes, OnlyDownIsDown) {
    for (const char* state : {"DOWN", "DOWN*", "DOWN+DRAIN", "DOWN+CLOUD+NOT_RESPONDING",
                              "DOWN+COMPLETING", "DOWN*+CLOUD", "DOWN~"})
        EXPECT_TRUE(is_down(state)) << state;
    for (const char* state :
         {"IDLE", "IDLE*", "ALLOCATED+DRAIN", "MIXED+NOT_RESPONDING", "IDLE+POWERED_DOWN",
          "IDLE+CLOUD+POWERING_DOWN", "UNKNOWN", "FUTURE", "ERROR", "FAIL", "DOWNED", "down", ""})
        EXPECT_FALSE(is_down(state)) << state;
    EXPECT_TRUE(lost_its_node("NODE_FAIL"));
    EXPECT_FALSE(lost_its_node("FAILED"));
    EXPECT_FALSE(lost_its_node("COMPLETING"));
}

TEST(Submitted, NamesTheJob) {
    EXPECT_EQ(*parse_submitted("123\n"), "123");
    EXPECT_EQ(*parse_submitted("123;gpu-cluster\n"), "123");
    EXPECT_EQ(*parse_submitted("this site says hello\n77\n"), "77");
    EXPECT_FALSE(parse_submitted(""));
    EXPECT_FALSE(parse_submitted("12"));
    EXPECT_FALSE(parse_submitted("Submitted batch job 12\n"));
}

TEST(Partitions, ReadsRows) {
    const auto rows = parse_partitions(
        "gpu|up|7-00:00:00|8|16|gpu:h200:8(S:0-1),gpu:a100:2\n"
        "cpu|down|infinite|4|128+|(null)\nshort|up|30:00|1|8|gpu:4\n");
    ASSERT_TRUE(rows);
    EXPECT_EQ((*rows)[0].limit_seconds, 7 * 86'400);
    EXPECT_EQ((*rows)[0].gpus, 10);
    EXPECT_FALSE((*rows)[1].up);
    EXPECT_FALSE((*rows)[1].limit_seconds);
    EXPECT_EQ((*rows)[1].cpus, 128);
    EXPECT_EQ((*rows)[2].limit_seconds, 1800);
    EXPECT_EQ((*rows)[2].gpus, 4);
}

TEST(Submission, ArgumentsThatSbatchItselfRefusesAreARefusal) {
    EXPECT_EQ(judge_submission(false, 255, "sbatch: error: Invalid --mem specification"),
              Submission::Refused);
    EXPECT_EQ(judge_submission(false, 255, "sbatch: unrecognized option '--nosuch'"),
              Submission::Refused);
    EXPECT_EQ(judge_submission(false, 128 + 9, ""), Submission::Unknown) << "killed";
    EXPECT_EQ(judge_submission(false, 127, "no such program"), Submission::Refused);
}

TEST(Submission, AConnectionThatFailsSaysNothing) {
    EXPECT_EQ(judge_submission(true, 0, ""), Submission::Unknown);
    EXPECT_EQ(judge_submission(false, 0, ""), Submission::Accepted);
    EXPECT_EQ(
        judge_submission(false, 1,
                         "sbatch: error: Batch job submission failed: Unable to contact slurm "
                         "controller (connect failure)"),
        Submission::Unknown);
    EXPECT_EQ(judge_submission(false, 1,
                               "sbatch: error: Batch job submission failed: Socket timed out on "
                               "send/recv operation"),
              Submission::Unknown);
    for (const char* text :
         {"Rate limit exceeded, please retry momentarily", "Unable to create job record, try again",
          "Communication shutdown failure", "Unexpected missing socket error",
          "Connection rejected by handler", "Unable to process outgoing file descriptor",
          "Slurm backup controller in standby mode", "Zero Bytes were transmitted or received"})
        EXPECT_EQ(judge_submission(false, 1, text), Submission::Unknown) << text;
    EXPECT_EQ(judge_submission(
                  false, 1,
                  "sbatch: error: Batch job submission failed: Invalid partition name specified"),
              Submission::Refused);
    EXPECT_EQ(judge_submission(false, 1,
                               "sbatch: error: Batch job submission failed: Requested node "
                               "configuration is not available"),
              Submission::Refused);
}

}  // namespace
}  // namespace roll::slurm
