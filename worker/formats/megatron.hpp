// The entries of Megatron's rank files other than weights. These are the run's arguments (an
// argparse.Namespace) and the checkpoint version, which determines the order of attention rows.
#pragma once

#include <cstdint>
#include <string>

#include "common/error.hpp"
#include "common/json.hpp"
#include "worker/formats/mca.hpp"
#include "worker/formats/torch_file.hpp"

namespace roll::formats {

struct MegatronState {
    double version = 0;  // checkpoint_version; 0 if the file has none
    Json args = Json::object();
    McaLayout layout;  // the parallel layout, from the run's arguments
    bool has_args = false;
};

// Reads the state from a rank's file or from common.pt. The file's content is a dict, or a list
// with one dict. Fails with Corrupt if a parallel size is invalid.
Result<MegatronState> read_megatron_state(const TorchFile& file);

// Returns the run's arguments for a native config. These are the arguments that Megatron compares
// with a checkpoint or takes from it (check_checkpoint_args, load_args_from_checkpoint).
Json megatron_args(const McaConfig& config, tensor::DType dtype);

// Reverses megatron_args(): returns the native fields that a run's arguments determine.
Json native_of_args(const Json& args);

// Writes an argparse.Namespace with the values in `args`.
void write_namespace(PickleWriter& out, const Json& args);

// Writes the entries of a JSON object as entries of a dict.
void write_entries(PickleWriter& out, const Json& entries);

// Writes three entries of a dict: args, checkpoint_version (unless it is 0) and iteration.
void write_megatron_state(PickleWriter& out, const Json& args, int version,
                          std::int64_t iteration = 0);

// Returns the name that a tensor had in models older than Megatron core; an empty text if these
// models had no such tensor. In the result, '/' separates the keys of nested dicts. `core` is the
// tensor's name in Megatron core without TransformerEngine. `tied` is true if the output layer is
// the embedding. The last stage then has a copy of the embedding.
std::string former_spelling(const std::string& core, bool tied);

// Returns the tensor's name in Megatron core. For example,
// "language_model.encoder.layers.0.attention.dense.weight", with or without the prefix "module.",
// becomes "decoder.layers.0.self_attention.linear_proj.weight".
std::string core_spelling(std::string name);

}  // namespace roll::formats
