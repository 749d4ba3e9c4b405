#include "cli/submit/checks.hpp"
#include "common/files.hpp"
#include "common/json.hpp"
#include "common/spec/train/train.hpp"
#include "worker/plan/pipeline_csv.hpp"

namespace roll::cli {

std::vector<spec::Problem> schedule_problems(std::string_view document) {
    const auto json = parse_json(document);
    const Json::json_pointer key("/parallel/schedule_file");
    if (!json || !json->contains(key)) return {};
    const auto spec = spec::train_spec(document);
    if (!spec) return {};
    const std::string& file = spec->parallel.schedule_file;
    const auto text = read_regular_file(file);
    const auto schedule =
        text ? plan::schedule_from_csv(*text, spec->parallel.pp, spec->parallel.vpp,
                                       static_cast<int>(spec->microbatches()))
             : tl::unexpected(text.error());
    if (schedule) return {};
    return {{"parallel.schedule_file",
             "is " + file + ", which cannot be used: " + schedule.error().message}};
}

}  // namespace roll::cli
