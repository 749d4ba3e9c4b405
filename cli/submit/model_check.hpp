// Before a training job is queued, checks the model from which the job starts. The ranks make the
// same checks when the job starts, which may be hours later. This code reads configs and the
// headers of files, but no weights.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/spec/schema/problem.hpp"
#include "common/spec/train/model.hpp"
#include "worker/families/families.hpp"

namespace roll::cli {

struct CheckedJob;  // a job document, and the list that collects its problems

// Finds problems of the models that jobs name. Opens each directory only once, even if many jobs
// name it.
class ModelCheck {
  public:
    // If `config_suffices`, the directory of a model needs no weights.
    explicit ModelCheck(bool config_suffices) : config_suffices_(config_suffices) {}

    // Returns the problems of a job's document and of the jobs in its `then`. Ignores values of a
    // wrong type, because the schema's check reports them. Ignores directories that this machine
    // cannot see, because the ranks check them. If `whole` is true, the schema's check has found no
    // problem. Checks sizes only in this case.
    std::vector<spec::Problem> problems(const Json& document, const std::string& base, bool whole);

  private:
    struct Model {
        std::optional<spec::ModelConfig> config;  // nullopt if the config has problems
        // names of the model's parameters as in Roll's checkpoints; empty if unknown
        std::vector<std::string> parameters;
        // names of the model's modules, from modules_of(); empty if unknown
        std::vector<std::string> modules;
        bool reads_bytes = false;  // the model was trained on bytes, not on tokens
        std::vector<std::string> problems;
    };
    struct Tokens {
        // Number of token ids; nullopt: the tokenizer has a problem, or this machine cannot see it.
        std::optional<std::int64_t> ids;
        std::string problem;
    };

    void check(const CheckedJob& job);
    // given_model() returns the model in model.from, model_in() the model in a directory. Both
    // return null if this machine cannot see the directory.
    const Model* given_model(const CheckedJob& job);
    const Model* model_in(const std::string& directory, const Json& dropouts);
    void check_teacher(const CheckedJob& job, std::int64_t vocab);
    std::optional<Model> sized_model(const CheckedJob& job, std::optional<std::int64_t> ids);
    Tokens tokens(const CheckedJob& job, const Model* model);
    const Result<families::Families>& families(const std::string& model_type);

    bool config_suffices_;
    // Maps the model_type of a HuggingFace config to the families loaded for it.
    std::map<std::string, Result<families::Families>> families_;
    std::map<std::string, Model> models_;
    std::map<std::string, Tokens> tokenizers_;
};

}  // namespace roll::cli
