// The entries of Megatron's rank files besides weights. They are the run's arguments (an
// argparse.Namespace) and the checkpoint version, which determines the order of attention rows.
#pragma once

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

// Reads the state from a rank's file or from common.pt. The file's dict may be the only item of a
// list. Fails with Corrupt if a parallel size is invalid.
Result<MegatronState> read_megatron_state(const TorchFile& file);

// Returns the run's arguments that belong to a native config: those that Megatron compares with a
// checkpoint or takes over from it (check_checkpoint_args, load_args_from_checkpoint).
Json megatron_args(const McaConfig& config, tensor::DType dtype);

// Reverses megatron_args(): returns the native fields that a run's arguments give.
Json native_of_args(const Json& args);

// Writes an argparse.Namespace with the values in `args`.
void write_namespace(PickleWriter& out, const Json& args);

// Writes three entries of a dict: args, checkpoint_version (unless it is 0) and iteration.
void write_megatron_state(PickleWriter& out, const Json& args, int version);

// Returns the name that a tensor had before Megatron core, with '/' between nested dicts; empty if
// models had no such tensor then. `core` is the tensor's name in Megatron core, in the spelling of
// models without TransformerEngine. `tied` means that the output layer is the embedding, of which
// the last stage has a copy.
std::string former_spelling(const std::string& core, bool tied);

// Translates a name to Megatron core's spelling:
// "language_model.encoder.layers.0.attention.dense.weight", with or without "module." in front,
// becomes "decoder.layers.0.self_attention.linear_proj.weight".
std::string core_spelling(std::string name);

}  // namespace roll::formats
