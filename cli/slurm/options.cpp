#include "cli/slurm/options.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/foreign/table.hpp"
#include "common/spec/schema/nearest.hpp"

namespace roll::cli {
namespace {

const OrderedJson& known_options() { return sbatch_table()["options"]; }

bool takes_value(const OrderedJson& entry) { return entry.contains("argument"); }
bool needs_value(const OrderedJson& entry) {
    return takes_value(entry) && !entry.value("optional", false);
}

Error option_error(const SourceWord& word, const std::string& what) {
    return {ErrorCode::InvalidArgument, word.place + what,
            "docs/from-slurm.md lists the options of sbatch"};
}

// Returns the full name of the option. `name` is the full name or an abbreviation of it.
Result<std::string> find_long(const std::string& name, const SourceWord& word) {
    if (known_options().contains(name)) return name;
    std::vector<std::string> known;
    std::vector<std::string> meant;
    for (const auto& [option, entry] : known_options().items()) {
        known.push_back(option);
        if (!name.empty() && option.starts_with(name)) meant.push_back("--" + option);
    }
    if (meant.size() == 1) return meant.front().substr(2);
    if (meant.size() > 1)
        return tl::unexpected(option_error(
            word, fmt::format("--{} is ambiguous; it may mean {}", name, fmt::join(meant, ", "))));
    return tl::unexpected(option_error(word, fmt::format("--{} is not an option of sbatch{}", name,
                                                         spec::did_you_mean(name, known))));
}

std::optional<std::string> find_letter(char letter) {
    for (const auto& [name, entry] : known_options().items())
        if (entry.value("short", "") == std::string(1, letter)) return name;
    return std::nullopt;
}

// Reads the options of a list of words.
class OptionReader {
  public:
    explicit OptionReader(const std::vector<SourceWord>& words) : words_(words) {}

    Result<SbatchWords> read() {
        for (; at_ < words_.size(); ++at_) {
            const SourceWord& word = words_[at_];
            if (word.text.size() < 2 || word.text[0] != '-') break;
            if (word.text == "--") {
                ++at_;
                break;
            }
            ROLL_TRY_VOID(word.text[1] == '-' ? read_long(word) : read_letters(word));
        }
        result_.rest.assign(words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
        return std::move(result_);
    }

  private:
    Result<void> read_long(const SourceWord& word) {
        const std::size_t equals = word.text.find('=');
        ROLL_TRY(const std::string name, find_long(word.text.substr(2, equals - 2), word));
        const OrderedJson& entry = sbatch_entry(name);
        if (equals == std::string::npos && needs_value(entry)) return read_next(name, word);
        if (equals != std::string::npos && !takes_value(entry))
            return tl::unexpected(
                option_error(word, fmt::format("{}: --{} takes no value", word.text, name)));
        add(name, equals == std::string::npos ? "" : word.text.substr(equals + 1), word);
        return {};
    }

    // Reads a group of letters. For example, "-HN2" means -H and -N 2.
    Result<void> read_letters(const SourceWord& word) {
        for (std::size_t i = 1; i < word.text.size(); ++i) {
            const auto name = find_letter(word.text[i]);
            if (!name)
                return tl::unexpected(option_error(
                    word, fmt::format("-{} is not an option of sbatch", word.text[i])));
            const OrderedJson& entry = sbatch_entry(*name);
            const std::string joined = word.text.substr(i + 1);
            if (!takes_value(entry)) {
                add(*name, "", word);
                continue;
            }
            if (joined.empty() && needs_value(entry)) return read_next(*name, word);
            add(*name, joined, word);
            return {};
        }
        return {};
    }

    // Takes the next word as the value of the option `name`.
    Result<void> read_next(const std::string& name, const SourceWord& word) {
        if (at_ + 1 == words_.size())
            return tl::unexpected(
                option_error(word, fmt::format("--{} needs a value: --{}={}", name, name,
                                               sbatch_entry(name)["argument"].get<std::string>())));
        ++at_;
        add(name, words_[at_].text, word);
        return {};
    }

    void add(const std::string& name, std::string value, const SourceWord& word) {
        result_.options.push_back({name, std::move(value), word.place});
    }

    const std::vector<SourceWord>& words_;
    std::size_t at_ = 0;
    SbatchWords result_{};
};

// Returns whether a variable's value sets a flag. Such a value is empty, "yes" or a number that is
// not 0.
bool is_on(const std::string& value) {
    return value.empty() || value == "yes" || std::atoi(value.c_str()) != 0;
}

}  // namespace

const OrderedJson& sbatch_entry(const std::string& name) { return known_options()[name]; }

Result<SbatchWords> read_sbatch_words(const std::vector<SourceWord>& words) {
    return OptionReader(words).read();
}

std::vector<SbatchOption> sbatch_variables(const std::vector<std::string>& environment) {
    std::vector<SbatchOption> options;
    for (const auto& [name, entry] : known_options().items()) {
        for (const OrderedJson& variable : entry.value("env", OrderedJson::array())) {
            const std::string start = variable.get<std::string>() + "=";
            const auto found = std::ranges::find_if(
                environment, [&](const std::string& one) { return one.starts_with(start); });
            if (found == environment.end()) continue;
            const std::string value = found->substr(start.size());
            const std::string place = variable.get<std::string>() + ": ";
            if (takes_value(entry) && !value.empty()) options.push_back({name, value, place});
            if (!takes_value(entry) && is_on(value)) options.push_back({name, "", place});
            break;
        }
    }
    return options;
}

std::string sbatch_advice(const std::string& word) {
    if (word.size() < 2 || word[0] != '-') return "";
    const std::string name =
        word[1] == '-' ? word.substr(2, word.find('=') - 2) : find_letter(word[1]).value_or("");
    if (!known_options().contains(name)) return "";
    const OrderedJson& entry = sbatch_entry(name);
    for (const char* key : {"no_effect", "refused"})
        if (entry.contains(key))
            return fmt::format("--{} is an option of sbatch: {}", name,
                               entry[key].get<std::string>());
    return fmt::format("--{} is an option of sbatch; use it with `rollctl slurm sbatch`: {}", name,
                       entry["reads"].get<std::string>());
}

std::string option_text(const SbatchOption& option) {
    return "--" + option.name + (option.value.empty() ? "" : "=" + option.value);
}

}  // namespace roll::cli
