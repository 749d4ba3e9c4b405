// The rules that turn a job's texts into tokens.
#pragma once

#include <filesystem>
#include <vector>

#include "common/spec/train/train.hpp"
#include "worker/tokenizer/directory.hpp"
#include "worker/train/data/corpus/corpus.hpp"
#include "worker/train/data/corpus/prepare.hpp"
#include "worker/train/data/corpus/row_rules.hpp"

namespace roll::train {

// Returns the options that depend only on the job; `directory` and `threads` are not set. Looks for
// the chat template in the checkpoints, then in the directories of the tokenizer and the model.
data::PrepareOptions text_options(const spec::TrainSpec& spec,
                                  const tokenizer::TextTokenizer& tokenizer,
                                  const std::vector<std::filesystem::path>& checkpoints);

// Returns the rules of the job's rows and answers.
data::RowRules row_rules(const spec::TrainSpec& spec);

// Returns at which tokens the windows of a job's corpus may begin.
data::Cut cut_of(const spec::DataSpec& data);

}  // namespace roll::train
