// Log-probabilities of answers under a reference model. They are computed once and kept in
// a file beside the token files, under a hash of everything on which they depend, so that a
// continued job and other jobs with the same data and reference find them.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/train/data/corpus/sampler.hpp"

namespace roll::train {

// The values of one corpus file: of each pair, the log-probability of the chosen and of the
// rejected answer; of each labelled answer, its log-probability and that of its mismatched answer
// (0 if the objective does not need it). kUnknown stands for a value that is not computed yet.
using PairValues = std::vector<std::array<double, 2>>;
inline constexpr double kUnknown = 1;  // no log-probability is above 0

class PairReferences {
  public:
    // Adds a file with `pairs` pairs, whose values are unknown.
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

// Returns a hash of the files in a model's directory: their names, sizes and times, and samples of
// their bytes.
Result<std::string> model_identity(const std::filesystem::path& directory);

// Reads values that write_values() wrote. Returns nullopt if there is no such file, if it is
// damaged, or if it has another number of pairs.
std::optional<PairValues> read_values(const std::filesystem::path& path, std::size_t pairs);
Result<void> write_values(const std::filesystem::path& path, const PairValues& values);

// The reference model of a job, as reference.json in the job's output records it. A continued job
// keeps the reference of its first start.
struct ReferenceRecord {
    std::string model;     // directory
    std::string identity;  // model_identity() of the directory when the job started
};
std::optional<ReferenceRecord> read_reference(const std::filesystem::path& output);
Result<void> write_reference(const std::filesystem::path& output, const ReferenceRecord& record);

}  // namespace roll::train
