#include "worker/train/save/job_record.hpp"

#include <algorithm>
#include <map>

#include "common/files.hpp"
#include "worker/checkpoint/state.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/report/lr_curves.hpp"

namespace roll::train {
namespace {

constexpr const char* kSections[] = {"model",     "tokenizer", "data",
                                     "objective", "parallel",  "train"};

// Returns the record as a flat map. A key is a path such as "train.optimizer.lr".
std::map<std::string, Json> flat(const Json& record) {
    std::map<std::string, Json> values;
    for (const char* section : kSections) {
        if (!record.contains(section)) continue;
        const Json part = Json{{section, record[section]}}.flatten();
        for (const auto& [pointer, value] : part.items()) {
            std::string path = pointer.substr(1);
            std::replace(path.begin(), path.end(), '/', '.');
            values[path] = value;
        }
    }
    return values;
}

std::string shown(const std::map<std::string, Json>& values, const std::string& path) {
    const auto found = values.find(path);
    return found == values.end() ? "not set" : found->second.dump();
}

}  // namespace

std::string job_record(const protocol::Launch& launch, const spec::TrainSpec& spec) {
    Json record = need(parse_json(launch.document));
    const spec::ParallelSpec& p = spec.parallel;
    record["parallel"] = {{"dp", p.dp},   {"tp", p.tp}, {"pp", p.pp},
                          {"vpp", p.vpp}, {"cp", p.cp}, {"ep", p.ep}};
    if (p.sequence) record["parallel"]["sequence"] = true;
    if (p.pp > 1) record["parallel"]["schedule"] = spec::name_of(p.schedule);
    if (p.first_layers > 0) record["parallel"]["first_layers"] = p.first_layers;
    if (p.last_layers > 0) record["parallel"]["last_layers"] = p.last_layers;
    if (p.account_for_embedding) record["parallel"]["account_for_embedding"] = true;
    if (p.account_for_loss) record["parallel"]["account_for_loss"] = true;
    if (!p.pipeline_layout.empty()) record["parallel"]["pipeline_layout"] = p.pipeline_layout;
    if (!p.schedule_file.empty()) record["parallel"]["schedule_file"] = p.schedule_file;
    if (p.zero > 0) record["parallel"]["zero"] = p.zero;
    if (spec.epochs > 0) record["train"]["steps"] = spec.steps;
    return record.dump(2) + "\n";
}

std::vector<std::string> differences(const Json& before, const Json& now) {
    const std::map<std::string, Json> old = flat(before), current = flat(now);
    std::map<std::string, Json> all = old;
    all.insert(current.begin(), current.end());
    std::vector<std::string> lines;
    for (const auto& [path, ignored] : all) {
        const std::string was = shown(old, path), is = shown(current, path);
        if (was != is) lines.push_back(path + " was " + was + " and is " + is);
    }
    return lines;
}

std::vector<std::string> differences(const std::filesystem::path& checkpoint,
                                     const std::string& record, std::int64_t step) {
    const auto saved = read_file(checkpoint / checkpoint::kJobFile);
    if (!saved) return {};
    std::vector<std::string> lines;
    for (const std::string& line : differences(need(parse_json(*saved)), need(parse_json(record))))
        lines.push_back("another setting: " + line);
    const auto before = spec::train_spec(*saved);
    // If a later version of Roll wrote the saved record, the saved learning rates are unknown.
    if (!before) return lines;
    for (std::string& line : changed_rates(*before, need(spec::train_spec(record)), step))
        lines.push_back(std::move(line));
    return lines;
}

}  // namespace roll::train
