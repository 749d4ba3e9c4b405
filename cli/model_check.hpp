// What is wrong with the model that a training job starts from, as far as configs and the heads of
// files tell: said before the job is queued, not hours later by its ranks, which check all of it
// again. No weight is read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/spec/job.hpp"
#include "common/spec/model.hpp"
#include "worker/families/families.hpp"

namespace roll::cli {

struct CheckedJob;  // one document, and where its problems go

// A directory is opened once, however many jobs name it.
class ModelCheck {
  public:
    // Every problem of a job's document as its file has it, and of the jobs of its `then`. What has
    // another type than the schema says is the schema's to refuse, and a directory that cannot be
    // seen from here the rank's. `whole`: the schema found nothing, so sizes can be judged.
    std::vector<spec::Problem> problems(const Json& document, const std::string& base, bool whole);

  private:
    struct Model {
        std::optional<spec::ModelConfig> config;  // none: a problem says why
        std::vector<std::string> parameters;      // native names; empty: not known
        bool reads_bytes = false;                 // it was trained on bytes
        std::vector<std::string> problems;
    };
    struct Tokens {
        std::optional<std::int64_t>
            ids;  // none: a problem says why, or it cannot be seen from here
        std::string problem;
    };

    void check(const CheckedJob& job);
    const Model* given_model(const CheckedJob& job);
    std::optional<Model> sized_model(const CheckedJob& job, std::optional<std::int64_t> ids);
    Tokens tokens(const CheckedJob& job, const Model* model);
    const Result<families::Families>& families(const std::string& model_type);

    std::map<std::string, Result<families::Families>> families_;  // by who asked for them
    std::map<std::string, Model> models_;
    std::map<std::string, Tokens> tokenizers_;
};

}  // namespace roll::cli
