// Reads rank files (torch files with a state dict) and matches their tensors with the expected
// tensors. Accepts every spelling of a tensor's name that Megatron has ever used.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/checkpoint/matcher.hpp"
#include "worker/formats/torch_file.hpp"

namespace roll::convert {

class RankReader {
  public:
    // Reads the `expected` tensors into `source`. If `expected` has the tensors "NAME#q", "NAME#k"
    // and "NAME#v", all three are read from the tensor NAME.
    RankReader(Source& source, std::vector<Stored> expected)
        : source_(source),
          matcher_(std::move(expected), source) {}

    // Reads the tensors in the given sections of a file. A section is a key of the file's dict. The
    // empty section name stands for the whole dict. If a file lacks the section "model0", its
    // section "model" is read instead. `label` is the file's path in the list of expected tensors.
    Result<void> read(std::shared_ptr<const formats::TorchFile> file, const std::string& label,
                      const std::vector<std::string>& sections);

    // Checks that all expected tensors were found, and that no other tensors were found.
    Result<void> finish() { return matcher_.finish(); }

  private:
    Result<void> take(const Stored& where, const tensor::StridedView& view);
    Result<bool> take_interleaved(const Stored& where, const std::string& name,
                                  const tensor::StridedView& view);
    // Drops the tensor if the model does not need it; otherwise records it as unexpected. `view` is
    // the tensor's data.
    void drop_or_refuse(const std::string& file, const std::string& name,
                        const tensor::StridedView* view);

    Source& source_;
    Matcher matcher_;
};

// Returns, for each file, the sections (Stored::section) that hold expected tensors.
std::map<std::string, std::vector<std::string>> sections_by_file(
    const std::vector<Stored>& expected);

// Handle the padded vocabulary of a checkpoint. vocabulary_of() returns the number of rows in the
// model's config. pad_vocabulary() sets the number of rows of the embedding and the output layer to
// `padded`. unpad_vocabulary() restores the HuggingFace shapes of these two tensors, and clips
// `expected` to `rows` rows.
std::int64_t vocabulary_of(const Source& source);
void pad_vocabulary(Source& source, std::int64_t padded);
void unpad_vocabulary(Source& source, std::vector<Stored>& expected, std::int64_t rows);

}  // namespace roll::convert
