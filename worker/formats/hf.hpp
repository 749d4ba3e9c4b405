// HuggingFace model directories. They contain config.json, and weights in model.safetensors or in
// several shards with an index.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"
#include "common/tensor/view.hpp"

namespace roll::formats {

// Reads config.json. Fails with NotFound if the file is missing, and with Corrupt if the file is
// not a JSON object.
Result<Json> read_hf_config(const std::filesystem::path& directory);

// Returns the file of each tensor in an index. `text` is the content of the index. Fails with
// Corrupt if `text` is not an index or names a file in another directory. The caller must add the
// index's path to the message.
Result<std::map<std::string, std::string>> parse_index(std::string_view text);

// The names of a directory's weight files, in order, and the file of each tensor if there is an
// index.
struct HfWeights {
    std::vector<std::string> files;
    // maps a tensor's name to its file; empty if there is no index
    std::map<std::string, std::string> index;
};

// Finds the weight files of a directory. Fails with NotFound if there are no such files. Fails with
// Corrupt if an index names a file that is missing or is in another directory.
Result<HfWeights> find_hf_weights(const std::filesystem::path& directory);

// The mapped tensors of one file: a safetensors file, or a torch file with a state dict
// (pytorch_model.bin). The views are valid while `keep` is alive.
struct HfFile {
    std::vector<tensor::StridedView> tensors;
    std::shared_ptr<const void> keep;
};
Result<HfFile> open_hf_file(const std::filesystem::path& path);

// Splits tensors, in order, into shards of at most `bytes_max` bytes. A larger tensor gets a shard
// of its own. `sizes` are the tensors' sizes in bytes. Returns the shard number of each tensor,
// counted from 0.
std::vector<int> split_shards(const std::vector<std::int64_t>& sizes, std::int64_t bytes_max);

// The two parts of a weight format's file names: "model" and ".safetensors", or "pytorch_model" and
// ".bin".
struct HfContainer {
    const char* stem;
    const char* ending;
};
constexpr HfContainer kSafetensors{"model", ".safetensors"};
constexpr HfContainer kTorchFiles{"pytorch_model", ".bin"};

// Return the file name of a shard, such as "model.safetensors" or
// "model-00001-of-00002.safetensors", and the file name of the index, such as
// "model.safetensors.index.json".
std::string shard_name(const HfContainer& container, int shard, int shards);
std::string index_name(const HfContainer& container);

// Returns the text of an index file as transformers writes it.
std::string index_text(const std::map<std::string, std::string>& weight_map,
                       std::int64_t total_bytes, std::int64_t total_parameters);

// Sets the data type in a config, under the key that the config uses (dtype or torch_dtype).
void set_dtype(Json& hf_config, tensor::DType dtype);

// Returns true if a file beside the weights belongs to the model. Such files are the tokenizer, the
// generation config, chat templates, processors and remote code. `name` is relative to the model's
// directory.
bool is_companion(const std::string& name);
// Returns the names of the directory's companion files (see is_companion()), sorted.
std::vector<std::string> companion_files(const std::filesystem::path& directory);

}  // namespace roll::formats
