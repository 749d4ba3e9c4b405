#include "worker/formats/hf.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "common/files.hpp"
#include "common/json_file.hpp"
#include "common/tensor/safetensors.hpp"
#include "worker/formats/torch_file.hpp"

namespace roll::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 18> kCompanions{"added_tokens.json",
                                                  "chat_template.jinja",
                                                  "chat_template.json",
                                                  "generation_config.json",
                                                  "merges.txt",
                                                  "preprocessor_config.json",
                                                  "processor_config.json",
                                                  "special_tokens_map.json",
                                                  "spiece.model",
                                                  "tekken.json",
                                                  "tokenizer.json",
                                                  "tokenizer.model",
                                                  "tokenizer_config.json",
                                                  "video_preprocessor_config.json",
                                                  "vocab.json",
                                                  "vocab.txt",
                                                  "sentencepiece.bpe.model",
                                                  "configuration.json"};

constexpr const char* kMoreTemplates = "additional_chat_templates";

// largest depth of folders that are searched for files of remote code
constexpr int kFoldersMax = 8;

bool is_hidden(const fs::path& name) { return name.string().starts_with('.'); }

// Returns true if the path may be a file of remote code. The path may have directories, because a
// model's Python files may form packages.
bool is_remote_code(const fs::path& path) {
    return std::distance(path.begin(), path.end()) <= kFoldersMax &&
           std::none_of(path.begin(), path.end(), is_hidden);
}

// Returns true if a shard's name in an index names a file in the same directory.
bool is_plain_name(const std::string& name) {
    return !name.empty() && name.find('/') == std::string::npos &&
           name.find('\0') == std::string::npos && name != "." && name != "..";
}

Result<HfWeights> read_index(const fs::path& directory, const std::string& file) {
    const fs::path path = directory / file;
    ROLL_TRY(const std::string text, read_regular_file(path));
    auto index = parse_index(text);
    if (!index) return fail(ErrorCode::Corrupt, path.string() + index.error().message);
    HfWeights weights;
    weights.index = *std::move(index);
    std::set<std::string> files;
    for (const auto& [tensor, shard] : weights.index) files.insert(shard);
    weights.files.assign(files.begin(), files.end());
    for (const std::string& shard : weights.files)
        if (!is_file(directory / shard))
            return fail(ErrorCode::Corrupt, path.string() + " names " + shard +
                                                ", which does not exist; copy this file too");
    return weights;
}

template <class File>
HfFile keep_file(std::shared_ptr<File> file, std::vector<tensor::StridedView> tensors) {
    return {std::move(tensors), std::move(file)};
}

}  // namespace

Result<std::map<std::string, std::string>> parse_index(std::string_view text) {
    const auto json = parse_json(text);
    if (!json || !json->is_object() || !json->contains("weight_map") ||
        !(*json)["weight_map"].is_object())
        return fail(ErrorCode::Corrupt, " has no weight_map");
    std::map<std::string, std::string> index;
    for (const auto& [tensor, shard] : (*json)["weight_map"].items()) {
        if (!shard.is_string() || !is_plain_name(shard.get<std::string>()))
            return fail(ErrorCode::Corrupt, ": " + tensor + " is in " + shard.dump());
        index[tensor] = shard.get<std::string>();
    }
    return index;
}

Result<Json> read_hf_config(const fs::path& directory) {
    return read_json_object(directory / "config.json");
}

Result<HfWeights> find_hf_weights(const fs::path& directory) {
    // try the formats in the order in which transformers prefers them
    for (const HfContainer& container : {kSafetensors, kTorchFiles}) {
        const std::string index = index_name(container);
        const std::string single = shard_name(container, 0, 1);
        if (is_file(directory / index)) return read_index(directory, index);
        if (is_file(directory / single)) return HfWeights{{single}, {}};
    }
    return fail(ErrorCode::NotFound, directory.string() +
                                         " has neither model.safetensors nor pytorch_model.bin, "
                                         "nor a shard index");
}

Result<HfFile> open_hf_file(const fs::path& path) {
    if (path.extension() == ".safetensors") {
        ROLL_TRY(auto opened, tensor::SafetensorsFile::open(path));
        auto file = std::make_shared<tensor::SafetensorsFile>(std::move(opened));
        std::vector<tensor::StridedView> tensors;
        for (const tensor::TensorView& view : file->tensors())
            tensors.push_back(tensor::strided(view));
        return keep_file(std::move(file), std::move(tensors));
    }
    ROLL_TRY(auto opened, TorchFile::open(path));
    auto file = std::make_shared<TorchFile>(std::move(opened));
    ROLL_TRY(StateDict dict, file->state_dict(file->pickle().root()));
    return keep_file(std::move(file), std::move(dict.tensors));
}

std::vector<int> split_shards(const std::vector<std::int64_t>& sizes, std::int64_t bytes_max) {
    std::vector<int> shards;
    int shard = 0;
    std::int64_t used = 0;
    for (const std::int64_t size : sizes) {
        if (used > 0 && used + size > bytes_max) {
            ++shard;
            used = 0;
        }
        used += size;
        shards.push_back(shard);
    }
    return shards;
}

std::string shard_name(const HfContainer& container, int shard, int shards) {
    if (shards <= 1) return std::string(container.stem) + container.ending;
    return fmt::format("{}-{:05}-of-{:05}{}", container.stem, shard + 1, shards, container.ending);
}

std::string index_name(const HfContainer& container) {
    return shard_name(container, 0, 1) + ".index.json";
}

std::string index_text(const std::map<std::string, std::string>& weight_map,
                       std::int64_t total_bytes, std::int64_t total_parameters) {
    const Json json{
        {"metadata", {{"total_parameters", total_parameters}, {"total_size", total_bytes}}},
        {"weight_map", weight_map}};
    return json.dump(2) + "\n";
}

void set_dtype(Json& hf_config, tensor::DType dtype) {
    const char* const key = hf_config.contains("dtype") ? "dtype" : "torch_dtype";
    hf_config[key] = tensor::torch_name_of(dtype);
    // also set the type in nested configs, such as text_config and vision_config
    for (auto& [name, part] : hf_config.items())
        if (part.is_object() && part.value(key, Json()).is_string()) set_dtype(part, dtype);
}

bool is_companion(const std::string& name) {
    const fs::path path(name);
    if (path.has_parent_path() && path.extension() == ".py") return is_remote_code(path);
    if (path.has_parent_path())
        return path.parent_path() == kMoreTemplates && path.extension() == ".jinja";
    return path.extension() == ".py" || path.extension() == ".tiktoken" ||
           std::find(kCompanions.begin(), kCompanions.end(), name) != kCompanions.end();
}

std::vector<std::string> companion_files(const fs::path& directory) {
    std::vector<std::string> found;
    std::error_code error;
    fs::recursive_directory_iterator entry(directory, error);  // does not follow linked folders
    for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
        const fs::path path = entry->path().lexically_relative(directory);
        std::error_code ignored;
        if (entry->is_directory(ignored)) {
            if (entry.depth() + 1 >= kFoldersMax || is_hidden(path.filename()))
                entry.disable_recursion_pending();
        } else if (is_companion(path.string()) && entry->is_regular_file(ignored)) {
            found.push_back(path.string());
        }
    }
    std::sort(found.begin(), found.end());
    return found;
}

}  // namespace roll::formats
