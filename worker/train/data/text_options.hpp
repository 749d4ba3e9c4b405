// The rules by which a job's texts become tokens.
#pragma once

#include <filesystem>
#include <vector>

#include "common/spec/train.hpp"
#include "worker/tokenizer/directory.hpp"
#include "worker/train/data/corpus/corpus.hpp"
#include "worker/train/data/corpus/prepare.hpp"

namespace roll::train {

// Returns the options that depend on the job alone: `directory` and `threads` are not set. The chat
// template is searched in the checkpoints, then in the directories of the tokenizer and the model.
data::PrepareOptions text_options(const spec::TrainSpec& spec,
                                  const tokenizer::TextTokenizer& tokenizer,
                                  const std::vector<std::filesystem::path>& checkpoints);

// Returns where the windows of a job's corpus may begin.
data::Cut cut_of(const spec::DataSpec& data);

}  // namespace roll::train
