// The entries of Megatron's rank files besides weights: the run's arguments, as a Namespace, and
// the checkpoint version, which determines the order of attention rows.
#pragma once

#include <string>

#include "common/error.hpp"
#include "common/json.hpp"
#include "worker/formats/mca.hpp"
#include "worker/formats/torch_file.hpp"

namespace roll::formats {

struct MegatronState {
    double version = 0;  // checkpoint_version; 0 in files older than versions
    Json args = Json::object();
    McaLayout layout;  // from the arguments
    bool has_args = false;
};

// Reads a rank's file, common.pt, or a list with one such dict. Fails with Corrupt if a parallel
// size is invalid.
Result<MegatronState> read_megatron_state(const TorchFile& file);

// Returns the arguments that Megatron compares or takes over (check_checkpoint_args,
// load_args_from_checkpoint), derived from a native config.
Json megatron_args(const McaConfig& config, tensor::DType dtype);

// The inverse: returns the native fields that a run's arguments give.
Json native_of_args(const Json& args);

// Writes an argparse.Namespace of these values.
void write_namespace(PickleWriter& out, const Json& args);

// Writes keys of a dict and their values: args, checkpoint_version (unless 0), iteration.
void write_megatron_state(PickleWriter& out, const Json& args, int version);

// Translates a name of Megatron core, in the spelling for local modules, to the name before
// Megatron core. A '/' separates nested dicts. Returns empty if older models have no such tensor.
// `tied`: the output layer is the embedding, and the last stage has a copy.
std::string former_spelling(const std::string& core, bool tied);

// Translates a name to Megatron core's spelling:
// "language_model.encoder.layers.0.attention.dense.weight", with or without "module." in front,
// becomes "decoder.layers.0.self_attention.linear_proj.weight".
std::string core_spelling(std::string name);

}  // namespace roll::formats
