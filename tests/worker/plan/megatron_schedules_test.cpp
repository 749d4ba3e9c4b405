// Compares the rates with megatron-core's own OptimizerParamScheduler, at every step and after the
// last. Reads the output of tests/oracle/megatron_schedules.py.
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/files.hpp"
#include "worker/plan/lr_schedule.hpp"

namespace roll::plan {
namespace {

// Reads the options through a job file, so that its keys are tested too.
spec::OptimizerSpec options_of(const nlohmann::json& one) {
    nlohmann::json optimizer = {{"lr", one["lr_max"]}};
    for (const char* key :
         {"init_lr", "min_lr", "warmup_steps", "decay_steps", "schedule", "wsd_decay",
          "wsd_decay_steps", "weight_decay", "weight_decay_end", "weight_decay_schedule"})
        optimizer[key] = one[key];
    const nlohmann::json document = {{"kind", "train"},
                                     {"model", {{"family", "any"}}},
                                     {"data", {{"train", {"/a.txt"}}}},
                                     {"train",
                                      {{"seq_length", 1},
                                       {"global_batch_size", 1},
                                       {"micro_batch_size", 1},
                                       {"steps", one["steps"]},
                                       {"optimizer", optimizer}}}};
    return spec::train_spec(document.dump()).value().optimizer;
}

TEST(MegatronSchedules, EveryRateAndDecayIsMegatrons) {
    const char* const folder = std::getenv("ROLL_ORACLE_DATA");
    ASSERT_NE(folder, nullptr) << "run by ctest: no ROLL_ORACLE_DATA";
    const auto file = std::filesystem::path(folder) / "cases.json";
    const nlohmann::json cases = nlohmann::json::parse(read_file(file).value());
    ASSERT_GT(cases.size(), 1000U);
    for (const nlohmann::json& one : cases) {
        const spec::OptimizerSpec options = options_of(one);
        const std::int64_t steps = one["steps"];
        const std::int64_t count = std::ssize(one["lr"]);
        ASSERT_GT(count, steps);
        for (std::int64_t updates = 0; updates < count; ++updates) {
            ASSERT_DOUBLE_EQ(learning_rate(options, steps, updates), one["lr"][updates])
                << one["schedule"] << " " << updates;
            ASSERT_DOUBLE_EQ(weight_decay(options, steps, updates), one["weight_decays"][updates])
                << one["weight_decay_schedule"] << " " << updates;
        }
    }
}

}  // namespace
}  // namespace roll::plan
