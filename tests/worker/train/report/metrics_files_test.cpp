// Tests the bytes of the metrics files. The tests of whole runs read the files with TensorBoard
// itself.
#include <fstream>

#include <gtest/gtest.h>

#include "common/files.hpp"
#include "tests/temporary_folder.hpp"
#include "worker/train/report/metrics.hpp"
#include "worker/train/report/step_report.hpp"

namespace roll::train {
namespace {

TEST(MetricsFiles, CrcIsCastagnolis) {
    EXPECT_EQ(crc32c(""), 0U);
    // the check value that is published for the polynomial
    EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
    EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);    // RFC 3720, B.4
    EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);  // RFC 3720, B.4
}

TEST(MetricsFiles, ARecordIsLengthPayloadAndTheirMaskedCrcs) {
    const std::string record = tfrecord("abc");
    ASSERT_EQ(record.size(), 8U + 4 + 3 + 4);
    EXPECT_EQ(record.substr(0, 8), std::string("\3\0\0\0\0\0\0\0", 8));
    EXPECT_EQ(record.substr(12, 3), "abc");
    EXPECT_NE(record, tfrecord("abd"));
}

TEST(MetricsFiles, CsvHasACellForEachColumnAndNoneForWhatARowLacks) {
    const auto columns = [](const std::string& line) {
        return std::count(line.begin(), line.end(), ',');
    };
    const CsvTable table({"", "a,\"b\""}, {{{"step", 2}, {"valid_loss/older", 1.5}}}, {});
    const std::string head = table.head();
    EXPECT_EQ(head.substr(0, 20), "step,schema,loss,lr,");
    EXPECT_NE(head.find(R"(,"valid_tokens/a,""b""",)"), std::string::npos) << head;
    EXPECT_TRUE(head.ends_with(",valid_loss/older\n")) << head;
    const std::string line = table.line({{"step", 3}, {"lr", 0.5}, {"loss", NAN}});
    EXPECT_EQ(line.substr(0, 14), "3,1,null,0.5,,");
    EXPECT_EQ(columns(line), columns(head) - 5) << "a comma in five quoted names";
    EXPECT_EQ(table.line({{"step", 3}, {"text", "a,b"}}), "");
    EXPECT_EQ(table.line({{"schema", "roll.metrics/1"}, {"valid_tokens", 7}}), "") << "the head";
    EXPECT_NE(table.line({{"step", 3}, {"export_valid_loss", 1.25}}).find(",1.25,"),
              std::string::npos);
}

// The rise of a loss is found from applied steps, in a resumed run as in one that never stopped.
TEST(MetricsFiles, AResumedRunTakesTheLossesOfItsAppliedSteps) {
    const TemporaryFolder folder;
    std::ofstream(folder / "metrics.jsonl")
        << "{\"schema\": \"roll.metrics/1\"}\n{\"step\": 1, \"loss\": 3.5}\n"
        << "{\"step\": 2, \"loss\": 9.0, \"skipped\": true, \"spike\": \"loss\"}\n"
        << "{\"step\": 3, \"loss\": 2.5}\n{\"step\": 4, \"loss\": 2.25}\n";
    const Metrics metrics({.output = folder, .earlier = {}, .step = 3, .head = {}, .also = {}});
    EXPECT_EQ(metrics.losses(), (std::vector<std::pair<std::int64_t, double>>{{1, 3.5}, {3, 2.5}}));
}

// The first line describes the run, so a run that continues another job writes its own.
TEST(MetricsFiles, ARunThatContinuesAnotherJobDescribesItself) {
    const TemporaryFolder folder;
    const std::filesystem::path earlier = folder / "earlier.jsonl", file = folder / "metrics.jsonl";
    std::ofstream(earlier)
        << "{\"schema\": \"roll.metrics/1\", \"pp\": 4}\n{\"step\": 1}\n{\"step\": 2}\n";
    const auto text = [&](int pp) {
        const Metrics metrics({.output = folder,
                               .earlier = earlier,
                               .step = 1,
                               .head = {{"schema", "roll.metrics/1"}, {"pp", pp}},
                               .also = {}});
        return read_file(file).value();
    };
    const std::string wanted = "{\"schema\":\"roll.metrics/1\",\"pp\":2}\n{\"step\":1}\n";
    EXPECT_EQ(text(2), wanted);
    EXPECT_EQ(text(3), wanted) << "the next attempt of the same run";
}

StepReport report() {
    return {.step = 7,
            .steps = 300,
            .result = {.loss = 4.5,
                       .grad_norm = 1.25,
                       .clip_factor = 0.8,
                       .tokens = 1000,
                       .updated = true},
            .ranks = 2,
            .lr = 3e-3,
            .clipped_share = 0.25,
            .tokens = 7000,
            .seconds = 2,
            .phases = {.wall = 2, .max = {25e-5, 0.5}, .mean = {2e-4, 0.25}},
            .eta_seconds = 3700,
            .flops = {6e9, 8e9},
            .peak_flops = 1e13,
            .memory = {400 << 20, 500 << 20}};
}

TEST(StepReport, SaysEveryNumberWithItsConvention) {
    EXPECT_EQ(line_of(report()),
              "step   7/300  loss   4.5000  lr    0.003  norm    1.250  clip x0.800 ( 25 % of "
              "steps)      500 tokens/s,     250 a rank         3 TFLOP/s  mfu  30.0 % causal,  "
              "40.0 % full  wait    0.2 ms  memory    400 MiB, peak    500  left 1h 01m");
    const OrderedJson row = row_of(report());
    EXPECT_EQ(row["mfu"], 0.3);
    EXPECT_EQ(row["clip_factor"], 0.8);
    EXPECT_EQ(row["data_wait_seconds"], 25e-5);
    EXPECT_EQ(row["wall_s"], 2);
    EXPECT_EQ(row["phases"]["forward"], OrderedJson({{"max", 0.5}, {"mean", 0.25}}));
    EXPECT_EQ(row["phases"].size(), kPhases);
    EXPECT_NE(CsvTable({}, {}, {}).line(row).find(",0.00025,0.0002,0.5,0.25,"), std::string::npos);
    EXPECT_FALSE(row.contains("reduced_early"));
    EXPECT_EQ(row["clipped_share"], 0.25);
    EXPECT_EQ(row["tokens_per_second_per_rank"], 250);
    EXPECT_FALSE(row.contains("grad_zeros"));
    EXPECT_EQ(row["mfu_full"], 0.4);
    EXPECT_EQ(row["memory_peak_bytes"], 500 << 20);
    EXPECT_FALSE(row.contains("skipped"));
}

TEST(StepReport, AGpusMemoryIsToldBesideTheHosts) {
    EXPECT_FALSE(row_of(report()).contains("gpu_memory_bytes"));
    StepReport on_gpu = report();
    on_gpu.gpu = {{.allocated = 3LL << 30, .peak = 5LL << 30}};
    EXPECT_EQ(row_of(on_gpu)["gpu_memory_bytes"], 3LL << 30);
    EXPECT_EQ(row_of(on_gpu)["gpu_memory_peak_bytes"], 5LL << 30);
    EXPECT_NE(line_of(on_gpu).find("peak    500  gpu   3072 MiB, peak   5120  left"),
              std::string::npos);
}

TEST(StepReport, WithoutAPeakThereIsNoMfuAndASkippedStepSaysSo) {
    StepReport skipped = report();
    skipped.peak_flops = 0;
    skipped.result.updated = false;
    EXPECT_EQ(line_of(skipped).find("mfu"), std::string::npos);
    EXPECT_NE(line_of(skipped).find("  skipped  "), std::string::npos);
    EXPECT_EQ(line_of(skipped).size(), line_of(report()).size()) << "columns stand in line";
    skipped.step = 300;
    skipped.lr = 1.234e-5;
    EXPECT_EQ(line_of(skipped).size(), line_of(report()).size());
    EXPECT_FALSE(row_of(skipped).contains("mfu"));
    EXPECT_EQ(row_of(skipped)["skipped"], true);
    EXPECT_FALSE(row_of(skipped).contains("spike"));
    skipped.result.too_high = TooHigh::GradNorm;
    EXPECT_EQ(row_of(skipped)["spike"], "grad_norm");
    skipped.result.too_high = TooHigh::Loss;
    EXPECT_EQ(row_of(skipped)["spike"], "loss");
}

}  // namespace
}  // namespace roll::train
