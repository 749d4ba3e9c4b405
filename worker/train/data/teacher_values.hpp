// The predictions of a teacher for the windows of a job (objective distill). The values are
// computed once and kept in files next to the token files. A record holds the values of one window.
// Its key is the hash of the window's tokens. Therefore, a job with another order, length or layout
// finds the records of all windows that an earlier job has stored.
//
// Each attempt of a job appends to a file of its own. A record that an interrupted attempt has not
// finished is ignored.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <vector>

#include "common/error.hpp"
#include "common/files.hpp"
#include "common/spec/train/train.hpp"
#include "worker/train/data/corpus/append_file.hpp"
#include "worker/train/data/corpus/sampler.hpp"
#include "worker/train/model/chunk_spec.hpp"

namespace roll::train {

// Returns the key of a window: a hash of its tokens, and, if documents are kept apart, of the
// starts of its documents.
std::uint64_t teacher_key(const data::Window& window, const spec::TrainSpec& spec);

// The records in a directory. All of them store the same number of tokens for each target.
class TeacherValuesFiles {
  public:
    TeacherValuesFiles() = default;

    // Opens the files of a directory, which may not exist. If `verify` is true, reads all records,
    // and ignores damaged records.
    static Result<TeacherValuesFiles> open(const std::filesystem::path& directory,
                                           std::int64_t top_k, bool verify);

    bool has(std::uint64_t key) const { return places_.contains(key); }
    std::int64_t top_k() const { return top_k_; }

    // Copies a record to `values`, starting with row `begin`. The values of the record's n-th
    // target are copied to the n-th row whose target in targets_T is not ignored. Throws
    // RankFailure if there is no such record with this number of targets, or if all such records
    // are damaged.
    void copy(std::uint64_t key, const at::Tensor& targets_T, std::int64_t begin,
              const TeacherValues& values) const;

  private:
    struct Place {
        std::size_t file = 0, offset = 0;
    };
    std::int64_t top_k_ = 0;
    std::vector<MappedFile> files_;
    std::vector<std::filesystem::path> paths_;
    // a key may have several records, because a job writes a damaged record again
    std::multimap<std::uint64_t, Place> places_;
};

// Appends records to a new file.
class TeacherValuesWriter {
  public:
    // The file is created with the first record.
    explicit TeacherValuesWriter(std::filesystem::path path) : path_(std::move(path)) {}

    // Appends the record of a window. The tensors have one row for each target: ids_NK and
    // log_probs_NK, doubles on the CPU.
    Result<void> append(std::uint64_t key, const at::Tensor& ids_NK,
                        const at::Tensor& log_probs_NK);
    Result<void> sync();

  private:
    std::filesystem::path path_;
    data::AppendFile file_;
    bool opened_ = false;
};

}  // namespace roll::train
