// HuggingFace model directories: config.json, and weights in model.safetensors or in shards with an
// index.
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

// config.json. NotFound if there is none, Corrupt if it is not a JSON object.
Result<Json> read_hf_config(const std::filesystem::path& directory);

// tensor -> file, of the text of an index. Corrupt, said of what comes before the message: it is
// none, or names a file of another directory.
Result<std::map<std::string, std::string>> parse_index(std::string_view text);

// The weight files of a directory, in order, and, with an index, which tensors each should hold.
struct HfWeights {
    std::vector<std::string> files;
    std::map<std::string, std::string> index;  // tensor -> file; empty without an index
};

// NotFound: no weights. Corrupt: an index that names files outside the directory or not there.
Result<HfWeights> find_hf_weights(const std::filesystem::path& directory);

// Tensors of one file, mapped: safetensors or a torch file with a state dict (pytorch_model.bin).
// The views live as long as `keep`.
struct HfFile {
    std::vector<tensor::StridedView> tensors;
    std::shared_ptr<const void> keep;
};
Result<HfFile> open_hf_file(const std::filesystem::path& path);

// Splits tensors (in order) over files of at most `bytes_max` of content; a larger tensor has a
// file of its own. Sizes in bytes; returns each tensor's shard, counted from 0.
std::vector<int> split_shards(const std::vector<std::int64_t>& sizes, std::int64_t bytes_max);

// What weights are kept in: "model" and ".safetensors", or "pytorch_model" and ".bin".
struct HfContainer {
    const char* stem;
    const char* ending;
};
constexpr HfContainer kSafetensors{"model", ".safetensors"};
constexpr HfContainer kTorchFiles{"pytorch_model", ".bin"};

// "model.safetensors", or "model-00001-of-00002.safetensors"; "model.safetensors.index.json".
std::string shard_name(const HfContainer& container, int shard, int shards);
std::string index_name(const HfContainer& container);

// The index's content as transformers writes it.
std::string index_text(const std::map<std::string, std::string>& weight_map,
                       std::int64_t total_bytes, std::int64_t total_parameters);

// Says in a config what type its weights have, under the key that it has for that.
void set_dtype(Json& hf_config, tensor::DType dtype);

// Whether a file beside the weights belongs to the model: tokenizer, generation config, chat
// templates, processors, remote code. `name` is relative to the directory.
bool is_companion(const std::string& name);
// Those that the directory has, sorted.
std::vector<std::string> companion_files(const std::filesystem::path& directory);

}  // namespace roll::formats
