// Reads rank files (torch files with a state dict) and matches them with the expected tensors.
// Accepts every spelling of names that Megatron has used.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/matcher.hpp"
#include "worker/formats/torch_file.hpp"

namespace roll::convert {

// Suffixes of a tensor stored as interleaved rows: "NAME#q" is every third row of NAME, from the
// first.
constexpr std::array<const char*, 3> kInterleaved{"#q", "#k", "#v"};

class RankReader {
  public:
    // NAME is read if `expected` has "NAME#q", "NAME#k" and "NAME#v".
    RankReader(Source& source, std::vector<Stored> expected)
        : source_(source),
          matcher_(std::move(expected), source) {}

    // `label` is the file's name in the expected tensors. An empty section is the file's own dict;
    // "model" is read for "model0".
    Result<void> read(std::shared_ptr<const formats::TorchFile> file, const std::string& label,
                      const std::vector<std::string>& sections);

    // Checks that every expected tensor was found and no other.
    Result<void> finish() { return matcher_.finish(); }

  private:
    Result<void> take(const Stored& where, const tensor::StridedView& view);
    Result<bool> take_interleaved(const Stored& where, const std::string& name,
                                  const tensor::StridedView& view);
    // Drops the tensor if nothing is lost without it; else records it as unexpected.
    void drop_or_refuse(const std::string& file, const std::string& name,
                        const tensor::StridedView* view);

    Source& source_;
    Matcher matcher_;
};

// Returns the sections of each expected file.
std::map<std::string, std::vector<std::string>> sections_by_file(
    const std::vector<Stored>& expected);

// Reorders the rows of an attention tensor from groups to parts: all queries, then all keys, then
// all values. Requires pieces in the order query, key, value of each group.
void order_by_part(Stored& qkv);
bool is_qkv(const Stored& stored);

// Fails with InvalidArgument if the model has query groups: checkpoints before version 2 cannot
// order their rows.
Result<void> check_heads(const Stored& qkv, double version);

// A checkpoint's vocabulary is padded. pad_vocabulary() sets the embedding and output layer to
// `padded` rows. unpad_vocabulary() restores their HuggingFace shapes and clips the pieces to
// `rows` rows.
std::int64_t vocabulary_of(const Source& source);
void pad_vocabulary(Source& source, std::int64_t padded);
void unpad_vocabulary(Source& source, std::vector<Stored>& expected, std::int64_t rows);

}  // namespace roll::convert
