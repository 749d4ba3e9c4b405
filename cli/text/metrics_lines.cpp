#include "cli/text/metrics_lines.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "cli/text/render.hpp"

namespace roll::cli {
namespace {

// Fields that only `--json` prints, because a table with them would be wider than a terminal.
constexpr std::array kNotForPeople = {"tokens",
                                      "data_wait_seconds",
                                      "eta_seconds",
                                      "memory_bytes",
                                      "memory_peak_bytes",
                                      "gpu_memory_bytes",
                                      "gpu_memory_peak_bytes",
                                      "peak_tflops",
                                      "tflops",
                                      "mfu_full",
                                      "clip_factor",
                                      "clipped_share",
                                      "valid_perplexity",
                                      "tokens_per_second_per_rank",
                                      "wall_s",
                                      "reduced_early"};
// minimum width of a column; numbers such as 0.003656 need it
constexpr std::size_t kCellWidth = 8;

bool is_shown(const std::string& key, const Json& value) {
    return value.is_number() && std::ranges::find(kNotForPeople, key) == kNotForPeople.end();
}

std::string cell_text(const std::string& text, const std::string& column) {
    return fmt::format("{:>{}}", text, std::max(kCellWidth, column.size()));
}

std::string other_text(const Json& row) {
    std::string text = "step " + number_text(row["step"]);
    for (const auto& [key, value] : row.items())
        if (key != "step" && is_shown(key, value))
            text += fmt::format("  {} {}", key, number_text(value));
    if (row.value("text", Json()).is_string())
        text += "  sample: " + field_text(row, "prompt") + field_text(row, "text");
    return text + "\n";
}

}  // namespace

std::string MetricsLines::step_text(const Json& row) {
    bool grown = !begun_;
    for (const auto& [key, value] : row.items()) {
        if (!is_shown(key, value) || std::ranges::find(columns_, key) != columns_.end()) continue;
        columns_.push_back(key);
        grown = true;
    }
    begun_ = true;
    std::string head, line;
    for (const std::string& column : columns_) {
        const std::string gap = head.empty() ? "" : "  ";
        head += gap + cell_text(column, column);
        line += gap + cell_text(number_text(row.value(column, Json())), column);
    }
    line.resize(line.find_last_not_of(' ') + 1);
    return (grown ? head + "\n" : "") + line + "\n";
}

std::string MetricsLines::text(const Json& row) {
    if (!row.contains("step")) return "";
    return one_ || row.contains("loss") ? step_text(row) : other_text(row);
}

}  // namespace roll::cli
