// Reads files of ranks, torch files of a state dict each, against what is expected of them. Names
// in any spelling that Megatron ever had.
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

// A tensor that a file keeps in pieces of rows: "NAME#q" is every third row of NAME, from the
// first.
constexpr std::array<const char*, 3> kInterleaved{"#q", "#k", "#v"};

class RankReader {
  public:
    // Tensors named "NAME#q", "NAME#k" and "NAME#v" are expected together, as NAME.
    RankReader(Source& source, std::vector<Stored> expected)
        : source_(source),
          matcher_(std::move(expected), source) {}

    // `label` is the file's name in what is expected. An empty section is the file's own dict;
    // "model0" may be called "model".
    Result<void> read(std::shared_ptr<const formats::TorchFile> file, const std::string& label,
                      const std::vector<std::string>& sections);

    // Everything that was expected is there, and nothing else.
    Result<void> finish() { return matcher_.finish(); }

  private:
    Result<void> take(const Stored& where, const tensor::StridedView& view);
    Result<bool> take_interleaved(const Stored& where, const std::string& name,
                                  const tensor::StridedView& view);
    // Whether nothing is lost without it; else it is unexpected.
    void drop_or_refuse(const std::string& file, const std::string& name,
                        const tensor::StridedView* view);

    Source& source_;
    Matcher matcher_;
};

// What is expected, by file: the sections of each.
std::map<std::string, std::vector<std::string>> sections_by_file(
    const std::vector<Stored>& expected);

// The rows of an attention's tensor that keeps all queries first, then all keys, then all values,
// instead of group by group; its pieces come as queries, keys, values of each group.
void order_by_part(Stored& qkv);
bool is_qkv(const Stored& stored);

// InvalidArgument: the rows of an attention's tensor cannot be ordered as checkpoints before
// version 2 are, since there are query groups.
Result<void> check_heads(const Stored& qkv, double version);

// A model's vocabulary in a checkpoint is `padded` rows long: changes the embedding and the output
// layer, whose HuggingFace shapes `unpad_vocabulary` restores, clipping pieces to `rows`.
std::int64_t vocabulary_of(const Source& source);
void pad_vocabulary(Source& source, std::int64_t padded);
void unpad_vocabulary(Source& source, std::vector<Stored>& expected, std::int64_t rows);

}  // namespace roll::convert
