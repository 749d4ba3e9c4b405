// Reads words as options of sbatch, as getopt_long does. schemas/foreign/sbatch.json lists all
// options.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::cli {

// A word, and where it is from, for messages: "job.sh:3: ", or empty for the command line.
struct SourceWord {
    std::string text;
    std::string place;
};

struct SbatchOption {
    std::string name;   // long name, such as "ntasks"
    std::string value;  // empty for a flag, and if an optional value is left out
    std::string place;
};

struct SbatchWords {
    std::vector<SbatchOption> options;
    std::vector<SourceWord> rest;  // from the first word that is no option
};

// Splits the words into options and the rest. Options may be abbreviated, and letters joined
// (-HN2). Fails with InvalidArgument for an unknown option, with the nearest known one, and for a
// missing or superfluous value.
Result<SbatchWords> read_sbatch_words(const std::vector<SourceWord>& words);

// Returns the options that variables such as SBATCH_TIMELIMIT set. `environment` has "NAME=value".
std::vector<SbatchOption> sbatch_variables(const std::vector<std::string>& environment);

// Returns the entry of an option in the table.
const OrderedJson& sbatch_entry(const std::string& name);

// Returns an option as a person writes it: "--ntasks=4" or "--hold".
std::string option_text(const SbatchOption& option);

}  // namespace roll::cli
