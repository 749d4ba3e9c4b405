// Tests the lines of `rollctl metrics`.
#include "cli/text/metrics_lines.hpp"

#include <gtest/gtest.h>

namespace roll::cli {
namespace {

Json step(int number, double loss) {
    return {{"step", number},      {"loss", loss},       {"lr", 0.004},
            {"grad_norm", 0.5176}, {"tokens", 2048},     {"tokens_per_second", 12825.4},
            {"mfu", 0.2386},       {"clip_factor", 0.5}, {"phases", Json::object()}};
}

TEST(MetricsLines, AreATableThatFitsATerminal) {
    MetricsLines lines;
    EXPECT_EQ(lines.text({{"schema", "roll.metrics/1"}, {"dp", 2}}), "");
    EXPECT_EQ(lines.text(step(1, 5.5452)),
              "    step      loss        lr  grad_norm  tokens_per_second       mfu\n"
              "       1     5.545     0.004     0.5176              12825    0.2386\n");
    Json no_mfu = step(2, 5.25);
    no_mfu.erase("mfu");
    EXPECT_EQ(lines.text(no_mfu), "       2      5.25     0.004     0.5176              12825\n");
}

TEST(MetricsLines, RepeatTheHeadForANewColumn) {
    MetricsLines lines;
    lines.text(step(1, 5.5));
    Json pair = step(2, 5.25);
    pair["rewards/margins"] = 0.125;
    EXPECT_EQ(lines.text(pair),
              "    step      loss        lr  grad_norm  tokens_per_second       mfu  "
              "rewards/margins\n"
              "       2      5.25     0.004     0.5176              12825    0.2386  "
              "          0.125\n");
    EXPECT_EQ(lines.text(step(3, 5)),
              "       3         5     0.004     0.5176              12825    0.2386\n");
}

TEST(MetricsLines, ShowOneNumber) {
    MetricsLines lines("memory_bytes");
    EXPECT_EQ(lines.text({{"step", 2}, {"memory_bytes", 4096}}),
              "    step  memory_bytes\n       2          4096\n");
}

TEST(MetricsLines, NameTheNumbersOfOtherRows) {
    MetricsLines lines;
    EXPECT_EQ(lines.text({{"step", 400}, {"valid_loss", 1.5455}, {"valid_perplexity", 4.69}}),
              "step 400  valid_loss 1.546\n");
    EXPECT_EQ(lines.text({{"step", 400}, {"prompt", "In the"}, {"text", " end"}}),
              "step 400  sample: In the end\n");
}

}  // namespace
}  // namespace roll::cli
