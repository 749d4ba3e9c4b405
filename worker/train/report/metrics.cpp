#include "worker/train/report/metrics.hpp"

#include "common/files.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

std::string line_of(const OrderedJson& row) {
    return row.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + '\n';
}

// Returns the first line (the description of the run), if `with_head`, and the rows up to step
// `step`. Skips truncated lines and lines in another format.
std::vector<OrderedJson> cut(const std::string& text, std::int64_t step, bool with_head) {
    std::vector<OrderedJson> kept;
    std::size_t begin = 0;
    for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
        const auto row = OrderedJson::parse(text.substr(begin, end - begin), nullptr, false);
        if (!row.is_object()) continue;
        const auto at = row.find("step");
        const bool early = at != row.end() && at->is_number() && at->get<std::int64_t>() <= step;
        if (early || (with_head && row.contains("schema"))) kept.push_back(row);
    }
    return kept;
}

// Returns the rows that the file of this run starts with.
std::vector<OrderedJson> first_rows(const MetricsOptions& options, const fs::path& file) {
    std::vector<OrderedJson> rows;
    if (options.step > 0) {
        const auto own = read_file(file);
        if (own)
            rows = cut(*own, options.step, true);
        else if (!options.earlier.empty())
            rows = cut(read_file(options.earlier).value_or(""), options.step, false);
    }
    if (rows.empty() || !rows.front().contains("schema")) rows.insert(rows.begin(), options.head);
    return rows;
}

}  // namespace

Metrics::Metrics(const MetricsOptions& options) {
    const fs::path file = options.output / "metrics.jsonl";
    const std::vector<OrderedJson> kept = first_rows(options, file);
    std::string lines;
    for (const OrderedJson& row : kept) {
        lines += line_of(row);
        const auto loss = row.find("loss");
        if (loss != row.end() && loss->is_number() && !row.contains("skipped"))
            losses_.emplace_back(row["step"].get<std::int64_t>(), loss->get<double>());
    }
    lines_.emplace(file, lines);
    if (options.also.csv) {
        table_.emplace(options.valid_sets, kept, options.objective_keys, options.tasks);
        std::string cells = table_->head();
        for (const OrderedJson& row : kept) cells += table_->line(row);
        csv_.emplace(options.output / "metrics.csv", cells);
    }
    if (options.also.tensorboard)
        events_.emplace(options.output / "tensorboard", options.step, kept);
}

void Metrics::append(const OrderedJson& row) {
    lines_->append(line_of(row));
    if (csv_) csv_->append(table_->line(row));
    if (events_) events_->append(row);
}

void Metrics::sync() { lines_->sync(); }

}  // namespace roll::train
