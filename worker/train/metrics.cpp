#include "worker/train/metrics.hpp"

#include <array>

#include "common/files.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

constexpr std::array kColumns = {
    "step",
    "loss",
    "lr",
    "grad_norm",
    "clip_factor",
    "clipped_share",
    "grad_zeros",
    "tokens",
    "tokens_per_second",
    "tokens_per_second_per_rank",
    "tflops",
    "mfu",
    "mfu_full",
    "peak_tflops",
    "skipped",
    "data_wait_seconds",
    "memory_bytes",
    "memory_peak_bytes",
    "eta_seconds",
    "valid_loss",
    "valid_perplexity",
    "valid_bits_per_byte",
    "valid_tokens",
};

std::string line_of(const OrderedJson& row) {
    return row.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + '\n';
}

// The rows of at most `step` and the head; a torn or foreign line is left out.
std::vector<OrderedJson> cut(const std::string& text, std::int64_t step) {
    std::vector<OrderedJson> kept;
    std::size_t begin = 0;
    for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
        const auto row = OrderedJson::parse(text.substr(begin, end - begin), nullptr, false);
        if (!row.is_object()) continue;
        const auto at = row.find("step");
        const bool early = at != row.end() && at->is_number() && at->get<std::int64_t>() <= step;
        if (row.contains("schema") || early) kept.push_back(row);
    }
    return kept;
}

std::string earlier_text(const fs::path& file, const fs::path& earlier) {
    if (auto text = read_file(file)) return *text;
    if (earlier.empty()) return "";
    return read_file(earlier).value_or("");
}

}  // namespace

std::string csv_head() {
    std::string head;
    for (const char* column : kColumns) head += (head.empty() ? "" : ",") + std::string(column);
    return head + '\n';
}

std::string csv_line(const OrderedJson& row) {
    std::string line;
    int numbers = 0;
    for (const char* column : kColumns) {
        if (!line.empty()) line += ',';
        const auto cell = row.find(column);
        if (cell == row.end() || !cell->is_primitive() || cell->is_string()) continue;
        line += cell->dump();  // null: no number
        ++numbers;
    }
    return numbers > 1 ? line + '\n' : "";
}

Metrics::Metrics(const MetricsOptions& options) {
    const fs::path file = options.output / "metrics.jsonl";
    std::vector<OrderedJson> kept;
    if (options.step > 0) kept = cut(earlier_text(file, options.earlier), options.step);
    if (kept.empty()) kept.push_back(options.head);
    std::string lines, cells = csv_head();
    for (const OrderedJson& row : kept) {
        lines += line_of(row);
        cells += csv_line(row);
    }
    lines_.emplace(file, lines);
    if (options.also.csv) csv_.emplace(options.output / "metrics.csv", cells);
    if (options.also.tensorboard)
        events_.emplace(options.output / "tensorboard", options.step, kept);
}

void Metrics::append(const OrderedJson& row) {
    lines_->append(line_of(row));
    if (csv_) csv_->append(csv_line(row));
    if (events_) events_->append(row);
}

void Metrics::sync() { lines_->sync(); }

}  // namespace roll::train
