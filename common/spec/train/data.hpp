// The specification of the data of a train job.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace roll::spec {

// Selects the tokens of an sft document that count in the loss. Assistant: all turns of the
// assistant, or the completion of a prompt. All: all tokens. Last: only the last turn of the
// assistant.
enum class TrainOn { Assistant, All, Last };

// A validation set that consists of whole files.
struct ValidFiles {
    std::string name;
    std::vector<std::string> paths;  // absolute paths; the same file types as in DataSpec::train
};

// The order of samples. Roll: an order of Roll's own. Megatron: the order of Megatron-core's
// GPTDataset and BlendedDataset.
enum class SampleOrder { Roll, Megatron };

// How documents of objective sft are packed into rows. A row is a training sequence. InOrder: a row
// has consecutive whole documents. BestFit: a row has whole documents from anywhere in the file.
// Wrapped: the joined documents are cut into full rows at any token.
enum class Packing { InOrder, BestFit, Wrapped };

// The part of a document that is left out if the document is longer than a row
// (worker/train/data/corpus/row_rules.hpp). End, Start: the end or the start of the document.
// Prompt: the start of the document's prompt. Split: nothing, because the rest of the document goes
// into further rows. Drop: the whole document. Error: such a document fails the job.
enum class Truncation { End, Start, Prompt, Split, Drop, Error };

const char* name_of(Packing packing);
const char* name_of(Truncation truncation);

// Weights of the training files from a step on.
struct DataPhase {
    std::int64_t step = 0;  // number of steps before the phase begins
    std::vector<double> weights;
};

struct DataSpec {
    std::vector<std::string> train;  // absolute paths of .txt, .jsonl and .bin files to train on
    // Blends of the files, in ascending order of steps. The first blend begins at step 0.
    // Empty: no blend
    std::vector<DataPhase> phases;
    bool weigh_tokens = false;  // weights are shares of the tokens, not of the samples
    SampleOrder order = SampleOrder::Roll;
    Packing packing = Packing::InOrder;
    Truncation truncate = Truncation::End;
    // Shares of the training, validation and test part of each file; set only for order Megatron
    std::optional<std::array<double, 3>> split;
    double valid_fraction = 0.01;  // share of tokens that is held out at the end of each file
    std::string valid_name;  // name of the set of held-out tokens; empty if the user gave no name
    std::vector<ValidFiles> valid_files;
    std::string track;  // name of the set whose loss decides which checkpoint is best
    // Keys of a .jsonl line. `field` is the key of the text. The keys of prompt and completion are
    // used if `completions` is true.
    std::string field = "text", prompt_field = "prompt", completion_field = "completion";
    std::string label_field = "label";  // key of the label, used if `labels` is true
    std::string margin_field = {};      // key of a pair's margin; empty: pairs have no margin
    TrainOn train_on = TrainOn::Assistant;
    // Names of keys and roles that differ from the default names (worker/chat/conversation.hpp)
    std::map<std::string, std::string> columns, tags;
    bool completions = false;  // each line has a prompt and completions (objective sft)
    // For objective sft: a line without a prompt may have a text under `field`, which is learned
    // whole.
    bool texts = false;
    bool pairs = false;  // each line has a pair of completions; implies `completions`
    // Each line has a completion with a label, or a pair of completions. A pair becomes two
    // completions with labels. Implies `completions`.
    bool labels = false;
    bool skip_bad_lines = false;   // if false, the first bad line fails the job
    bool add_special = true;       // add the tokenizer's special tokens around each text
    bool documents_apart = false;  // tokens do not attend to other documents in the same sequence
    bool append_eos = true;        // append EOS to documents that do not end with EOS
    bool verify = false;           // read and check each file whole before training

    bool has_answers() const { return pairs || labels; }
};

}  // namespace roll::spec
