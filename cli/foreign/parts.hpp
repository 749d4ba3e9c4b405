// The parts of the reader of foreign configurations (foreign.hpp). Each of them sets the keys of a
// job file that depend on several keys of the configuration.
#pragma once

#include <string>

#include "cli/foreign/config.hpp"

namespace roll::cli {

// Returns true if the configuration is for a script of TRL: the configuration has a key that only
// TRL has, and no stage of LLaMA-Factory.
bool is_of_trl(const Config& config);

// Sets the objective. TRL names the stage on its command line, so this function infers the stage
// from the keys.
void read_stage(const Config& config);

// Sets train.lora. read_stage() must have been called before.
void read_lora(const Config& config);

// Reads the keys `optim` and `use_muon`. Adds a problem if Roll does not have the optimizer.
void read_optimizer(const Config& config);

// Reads Megatron's keys for the offload of the optimizer's state, and the keys of Megatron and TRL
// for the offload of activations.
void read_offload(const Config& config);

// Sets parallel.zero from `deepspeed`, `fsdp` and `use_distributed_optimizer`. `deepspeed` is
// DeepSpeed's configuration, or the path of its JSON file. Adds a problem for each setting of
// DeepSpeed that differs from the same setting of the configuration.
void read_sharding(const Config& config);

// Reads the keys of a foreign configuration that describe data sets.
void read_data(const Config& config);
// Reads the keys of the chat template. read_data() must have been called before.
void read_template(const Config& config);

// Applies all rules. `config` has no keys with the value null. Adds problems and remarks to
// `foreign`. `megatron` is true if the configuration is for mcore_adapter.
void apply_rules(const Json& config, const std::string& directory, bool megatron, Json& document,
                 Foreign& foreign);

// Returns true if the document is the file of an SFT or DPO pipeline of ROLL: it has the key
// `pretrain` and the worker sft_train or actor_train.
bool is_pipeline(const Json& document);

// Returns true if the strategy of the pipeline's worker is megatron_train. The other strategies
// also have keys of the layout, and the flat configuration uses Megatron's names for them.
bool trains_with_megatron(const Json& document);

// Returns the flat configuration with the same meaning as the pipeline's file. Adds problems, keys
// without an effect and remarks to `foreign`. Each problem names the path of a key, such as
// "actor_train.training_args.optim". Sets `columns` to the names that the file gives to the fields
// of an sft record: its prompt, query, response and system prompt.
Json flattened(const Json& document, Json& columns, Foreign& foreign);

}  // namespace roll::cli
