// Checks the model that a training job starts from, before the job is queued rather than hours
// later in its ranks (which check it again). Reads configs and file headers, no weights.
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

struct CheckedJob;  // one job document and the list that collects its problems

// Finds the problems of jobs' models. Opens each directory only once, however many jobs name it.
class ModelCheck {
  public:
    // Returns the problems of a job's document and of the jobs in its `then`. Ignores values of a
    // wrong type, which the schema reports, and directories that this machine cannot see, which the
    // ranks check. `whole` says that the schema found no problem, so that sizes can be checked.
    std::vector<spec::Problem> problems(const Json& document, const std::string& base, bool whole);

  private:
    struct Model {
        std::optional<spec::ModelConfig> config;  // nullopt: `problems` says why
        std::vector<std::string> parameters;      // native names; empty if unknown
        bool reads_bytes = false;                 // the model was trained on bytes
        std::vector<std::string> problems;
    };
    struct Tokens {
        std::optional<std::int64_t> ids;  // nullopt: see `problem`, or the tokenizer is not visible
        std::string problem;
    };

    void check(const CheckedJob& job);
    const Model* given_model(const CheckedJob& job);
    std::optional<Model> sized_model(const CheckedJob& job, std::optional<std::int64_t> ids);
    Tokens tokens(const CheckedJob& job, const Model* model);
    const Result<families::Families>& families(const std::string& model_type);

    std::map<std::string, Result<families::Families>> families_;  // by model_type
    std::map<std::string, Model> models_;
    std::map<std::string, Tokens> tokenizers_;
};

}  // namespace roll::cli
