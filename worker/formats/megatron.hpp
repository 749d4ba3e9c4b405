// What Megatron's rank files hold besides weights: the arguments of the run, as a Namespace, and
// the version that decides the order of attention's rows.
#pragma once

#include <string>

#include "common/error.hpp"
#include "common/json.hpp"
#include "worker/formats/mca.hpp"
#include "worker/formats/torch_file.hpp"

namespace roll::formats {

struct MegatronState {
    double version = 0;  // of checkpoints; files before there were versions have none
    Json args = Json::object();
    McaLayout layout;  // by the arguments
    bool has_args = false;
};

// Of a rank's file, of common.pt, or of a list with one such dict. Corrupt: a parallel size that is
// none.
Result<MegatronState> read_megatron_state(const TorchFile& file);

// The arguments that Megatron compares or takes over (check_checkpoint_args,
// load_args_from_checkpoint), from a native config.
Json megatron_args(const McaConfig& config, tensor::DType dtype);

// The way back: native fields, of what a run's arguments say of its model.
Json native_of_args(const Json& args);

// argparse.Namespace of these values.
void write_namespace(PickleWriter& out, const Json& args);

// Keys of a dict and their values: args, checkpoint_version (0 has none), iteration.
void write_megatron_state(PickleWriter& out, const Json& args, int version);

// A name of Megatron's core, in the spelling for local modules, as the models before it have it; a
// '/' leads into a dict of its own. Empty: they know no such tensor. `tied`: the output layer is
// the embedding, of which a last stage has a copy.
std::string former_spelling(const std::string& core, bool tied);

// A name as Megatron's core spells it: "language_model.encoder.layers.0.attention.dense.weight",
// or with "module." in front, is "decoder.layers.0.self_attention.linear_proj.weight".
std::string core_spelling(std::string name);

}  // namespace roll::formats
