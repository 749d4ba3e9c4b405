#include "worker/train/report/metrics_csv.hpp"

#include <algorithm>

#include "worker/train/comm/phase_clock.hpp"

namespace roll::train {
namespace {

// Version of the columns; increase it when a column is removed or changes its meaning.
constexpr int kSchema = 1;

// clang-format off
constexpr const char* kOfEveryRun[] = {
    "step", "schema", "loss", "lr", "grad_norm", "clip_factor", "clipped_share", "grad_zeros", "tokens",
    "tokens_per_second", "tokens_per_second_per_rank", "tflops", "mfu", "mfu_full", "peak_tflops", "skipped",
    "loss_scale", "overflows", "data_wait_seconds", "memory_bytes", "memory_peak_bytes", "gpu_memory_bytes",
    "gpu_memory_peak_bytes", "eta_seconds", "export_valid_loss", "wall_s", "reduced_early",
    "balance_loss", "expert_load",
};
constexpr const char* kOfEverySet[] = {
    "valid_loss", "valid_perplexity", "valid_bits_per_byte", "valid_tokens", "ngram2_bits_per_byte",
};
// clang-format on

bool is_number(const OrderedJson& cell) { return cell.is_primitive() && !cell.is_string(); }

// Returns the number in a row for a column; null if the row has no such number. The column
// phases/NAME/KEY is a number in the object `phases`.
const OrderedJson* number_at(const OrderedJson& row, const std::string& column) {
    const OrderedJson* cell = nullptr;
    if (const auto found = row.find(column); found != row.end()) cell = &*found;
    if (column.starts_with("phases/")) {
        const OrderedJson::json_pointer inner("/" + column);
        if (row.contains(inner)) cell = &row.at(inner);
    }
    return cell != nullptr && is_number(*cell) ? cell : nullptr;
}

// Returns the name of a column. If it has commas, quotes or line breaks, quotes it as in RFC 4180.
std::string quoted(const std::string& name) {
    if (name.find_first_of(",\"\r\n") == std::string::npos) return name;
    std::string text = "\"";
    for (const char c : name) text += c == '"' ? "\"\"" : std::string(1, c);
    return text + '"';
}

}  // namespace

CsvTable::CsvTable(const std::vector<std::string>& sets, const std::vector<OrderedJson>& kept,
                   std::span<const char* const> objective_keys,
                   const std::vector<std::string>& tasks)
    : columns_(std::begin(kOfEveryRun), std::end(kOfEveryRun)) {
    for (const char* const phase : kPhaseNames)
        for (const char* const over_ranks : {"/max", "/mean"})
            columns_.push_back(std::string("phases/") + phase + over_ranks);
    columns_.insert(columns_.end(), std::begin(kOfEverySet), std::end(kOfEverySet));
    for (const std::string& set : sets)
        for (const char* const column : kOfEverySet)
            if (!set.empty()) columns_.push_back(std::string(column) + "/" + set);
    for (const char* const key : objective_keys) {
        columns_.emplace_back(key);
        columns_.push_back(std::string("valid_") + key);
        for (const std::string& set : sets)
            if (!set.empty()) columns_.push_back(std::string("valid_") + key + "/" + set);
    }
    for (const std::string& task : tasks)
        for (const char* const column : {"task_acc/", "task_acc_norm/"})
            columns_.push_back(column + task);
    for (const OrderedJson& row : kept) {
        if (!row.contains("step")) continue;  // skip the first line, which describes the run
        for (const auto& [name, cell] : row.items())
            if (is_number(cell) && std::ranges::find(columns_, name) == columns_.end())
                columns_.push_back(name);
    }
}

std::string CsvTable::head() const {
    std::string head;
    for (const std::string& column : columns_) head += (head.empty() ? "" : ",") + quoted(column);
    return head + '\n';
}

std::string CsvTable::line(const OrderedJson& row) const {
    if (!row.contains("step")) return "";  // the first record of the metrics has no step
    std::string line;
    bool empty = true;
    for (const std::string& column : columns_) {
        if (!line.empty()) line += ',';
        if (column == "schema") line += std::to_string(kSchema);
        const OrderedJson* const cell = number_at(row, column);
        if (cell == nullptr) continue;
        line += cell->dump();  // dump() writes null for a non-finite number
        empty &= column == "step";
    }
    return empty ? "" : line + '\n';
}

}  // namespace roll::train
