// Log-probabilities of answers under a reference model. The log-probabilities are computed once and
// kept in a file next to the token files. The file's name has a hash of everything on which the
// values depend. Therefore, a continued job finds the file, and so does any other job with the same
// data and reference model.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/train/data/corpus/sampler.hpp"

namespace roll::train {

// The values of one corpus file. For each pair: the log-probabilities of the chosen and the
// rejected answer. For each labelled answer: its log-probability, and the log-probability of its
// mismatched answer (0 if the objective does not need it). kUnknown marks a value that is not
// computed yet.
using PairValues = std::vector<std::array<double, 2>>;
// differs from all values, because no log-probability is above 0
inline constexpr double kUnknown = 1;

class PairReferences {
  public:
    // Adds a file with `pairs` pairs. Their values are unknown.
    void add(const data::CorpusFile& file, std::size_t pairs);

    PairValues& values(const data::CorpusFile& file) { return values_.at(&file); }
    const std::array<double, 2>& of(const data::Window& window) const {
        return values_.at(window.file).at(window.pair);
    }
    bool is_known(const data::Window& window) const { return of(window)[0] != kUnknown; }
    void set(const data::Window& window, const std::array<double, 2>& log_probs) {
        values_.at(window.file).at(window.pair) = log_probs;
    }

  private:
    std::map<const data::CorpusFile*, PairValues> values_;
};

// Returns a hash of the files in a model's directory. The hash covers the names, sizes and times of
// the files, and samples of their bytes.
Result<std::string> model_identity(const std::filesystem::path& directory);

// Reads values that write_values() wrote. Returns nullopt if the file does not exist, is damaged,
// or has another number of pairs.
std::optional<PairValues> read_values(const std::filesystem::path& path, std::size_t pairs);
Result<void> write_values(const std::filesystem::path& path, const PairValues& values);

// The reference model of a job, as recorded in reference.json in the job's output directory. A
// continued job keeps the reference model of its first start.
struct ReferenceRecord {
    std::string model;     // directory of the model
    std::string identity;  // model_identity() of the directory when the job started
};
std::optional<ReferenceRecord> read_reference(const std::filesystem::path& output);
Result<void> write_reference(const std::filesystem::path& output, const ReferenceRecord& record);

}  // namespace roll::train
