// Parses words as options of sbatch, as getopt_long does. schemas/foreign/sbatch.json lists all
// options.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::cli {

// A word and its origin. `place` is a prefix of messages: "job.sh:3: ", or empty for the command
// line.
struct SourceWord {
    std::string text;
    std::string place;
};

struct SbatchOption {
    std::string name;   // long name, such as "ntasks"
    std::string value;  // empty if the option is a flag, or if an optional value is left out
    std::string place;
};

struct SbatchWords {
    std::vector<SbatchOption> options;
    std::vector<SourceWord> rest;  // the first word that is not an option, and all later words
};

// Splits the words into options and the rest. Options may be abbreviated, and letters may be joined
// (-HN2). Fails with InvalidArgument if an option is unknown, if a value is missing, or if an
// option has a value but takes none. For an unknown option, the message names the nearest known
// option.
Result<SbatchWords> read_sbatch_words(const std::vector<SourceWord>& words);

// Returns the options that variables such as SBATCH_TIMELIMIT set. `environment` has "NAME=value".
std::vector<SbatchOption> sbatch_variables(const std::vector<std::string>& environment);

// Returns the entry of an option in schemas/foreign/sbatch.json.
const OrderedJson& sbatch_entry(const std::string& name);

// Returns what Roll does with an option of sbatch, as the end of a sentence. `word` has the option,
// such as "--mem=4G" or "-N2". Returns an empty text if sbatch has no such option.
std::string sbatch_advice(const std::string& word);

// Returns an option as a person writes it: "--ntasks=4" or "--hold".
std::string option_text(const SbatchOption& option);

}  // namespace roll::cli
