// Loads weights from a checkpoint directory into the parameters of a model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "worker/train/model/parameters.hpp"

namespace roll::train {

// Fills the parameters of `chunks` from a HuggingFace directory, or from an MCA (ROLL's
// Megatron-based) directory of any layout. Casts the weights to the model's type. `whole`: the
// parameters of the whole model. The directory must have all tensors of the whole model, and no
// other tensors.
//
// Files are mapped, each byte is copied once, and pages are released after use. As a result, peak
// memory is the model plus the largest tensor.
//
// If the model's vocabulary is larger than the directory's, rows are added. Each added row is the
// mean of the directory's rows plus normal noise with standard deviation 1 / sqrt(hidden). The
// noise depends only on `seed` and the row number.
//
// `adapters`: directories of LoRA adapters of this model. The adapters are merged into the weights
// in this order, in float32.
//
// `state`: name of the optimizer state of a Roll checkpoint to read instead of the weights; empty:
// the weights.
//
// Returns a readable description of the source: "HuggingFace", "MCA" or "MCA of tp 2 pp 2". If rows
// were added, "; 64 vocabulary rows added" follows; if adapters were merged, their number follows.
// Throws RankFailure(invalid) if a tensor is missing, unknown or of another shape, and if an
// adapter belongs to another model or does not fit; the message names the tensor or the adapter.
std::string load_weights(const std::filesystem::path& directory,
                         std::span<Parameters* const> chunks,
                         const std::vector<ParameterSpec>& whole, std::uint64_t seed = 1,
                         const std::vector<std::string>& adapters = {},
                         const std::string& state = {});

// Like the function above, for a whole model in one chunk.
std::string load_weights(const std::filesystem::path& directory, Parameters& parameters);

// Throws RankFailure if an adapter names another model than `directory` as its base. A name of the
// form OWNER/NAME (a model of the Hub) is compared with each folder in the path of `directory`.
// `key`: the key of the job file that names the adapter.
void check_base(const std::filesystem::path& adapter, const std::filesystem::path& directory,
                const std::string& key);

}  // namespace roll::train
