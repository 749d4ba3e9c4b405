// roll/optimizer/index.json lists, for each parameter, the blocks of its optimizer state and the
// files in roll/optimizer/ that store these blocks. Each element of the state is in exactly one
// file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace roll::checkpoint {

inline constexpr const char* kOptimizerFolder = "roll/optimizer";
inline constexpr const char* kOptimizerIndexFile = "roll/optimizer/index.json";
// Directory with the moving average (train.ema) of a LoRA job's adapter, in PEFT's format
inline constexpr const char* kAveragedAdapter = "roll/ema";

using Sizes = std::vector<std::int64_t>;

// A block of a parameter's elements: a range in each dimension. The block begins at index `begin`
// of the parameter, and at index `local` of the tensor that stores it in `file`.
struct StoredBox {
    std::string file;  // file name within roll/optimizer/
    Sizes begin, size, local;
    friend bool operator==(const StoredBox&, const StoredBox&) = default;
};

struct StoredParameter {
    Sizes shape;  // shape of the whole parameter
    std::vector<StoredBox> boxes;
    friend bool operator==(const StoredParameter&, const StoredParameter&) = default;
};

struct OptimizerIndex {
    // number of updates that the optimizer has made
    std::int64_t updates = 0;
    std::map<std::string, StoredParameter> parameters;  // keys are parameter names
    std::string optimizer = "adamw";                    // the job's train.optimizer.kind
    friend bool operator==(const OptimizerIndex&, const OptimizerIndex&) = default;
};

std::string encode(const OptimizerIndex& index);
// Fails with Corrupt if the text is not an optimizer index, or if a block reaches outside its
// parameter.
Result<OptimizerIndex> decode_optimizer_index(std::string_view json);

// Reads a checkpoint's index. Fails with NotFound if the file does not exist, and with the errors
// of decode_optimizer_index(); the message names the file.
Result<OptimizerIndex> read_optimizer_index(const std::filesystem::path& checkpoint);

// Returns the file name of a rank's part in roll/optimizer/, such as "rank-00003.safetensors".
std::string optimizer_file(int rank);

// Returns true if the file holds optimizer state. `path` is relative to the checkpoint.
bool is_optimizer_state(std::string_view path);

}  // namespace roll::checkpoint
