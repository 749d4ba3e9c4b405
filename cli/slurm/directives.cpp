#include "cli/slurm/directives.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

namespace roll::cli {
namespace {

constexpr std::string_view kMark = "#SBATCH";
constexpr std::string_view kBlanks = " \t\r\v\f";

// Calls visit(number, rest) for each #SBATCH line at the script's head. `rest` is the line without
// "#SBATCH".
template <class Visit>
void for_each_directive(std::string_view script, const Visit& visit) {
    for (int number = 1; !script.empty(); ++number) {
        const std::string_view line = script.substr(0, script.find('\n'));
        script.remove_prefix(std::min(line.size() + 1, script.size()));
        const std::size_t begin = line.find_first_not_of(kBlanks);
        if (begin != std::string_view::npos && line[begin] != '#') return;
        if (line.starts_with(kMark)) visit(number, line.substr(kMark.size()));
    }
}

bool is_blank(char c) { return kBlanks.find(c) != std::string_view::npos; }

// Reads the words of one line, one after the other.
class LineWords {
  public:
    explicit LineWords(std::string_view line) : rest_(line) {}

    // Returns the next word; nullopt if the line has no more words.
    std::optional<std::string> next() {
        const std::size_t begin = std::min(rest_.find_first_not_of(kBlanks), rest_.size());
        rest_.remove_prefix(begin);
        if (rest_.empty() || rest_[0] == '#') return std::nullopt;
        std::string word;
        while (!rest_.empty() && (quote_ != 0 || !is_blank(rest_[0]))) {
            const char c = rest_[0];
            if (c == '#' && quote_ == 0) break;
            rest_.remove_prefix(1);
            take(c, word);
        }
        return word;
    }
    char open_quote() const { return quote_; }

  private:
    void take(char c, std::string& word) {
        const bool is_quote = c == '"' || c == '\'';
        if (c == '\\') {
            if (!rest_.empty()) word += rest_[0];
            rest_.remove_prefix(std::min<std::size_t>(1, rest_.size()));
        } else if (is_quote && quote_ == 0) {
            quote_ = c;
        } else if (c == quote_) {
            quote_ = 0;
        } else {
            word += c;
        }
    }

    std::string_view rest_;
    char quote_ = 0;  // the quote that is open; 0 if no quote is open
};

Error directive_error(const std::string& file, int line, const std::string& what,
                      const std::string& hint = {}) {
    return {ErrorCode::InvalidArgument, fmt::format("{}:{}: {}", file, line, what), hint};
}

// Appends the words of one line.
Result<void> add_words(std::string_view text, const std::string& file, int number,
                       std::vector<DirectiveWord>& words) {
    LineWords line(text);
    for (bool first = true; auto word = line.next(); first = false) {
        if ((first && (*word == "hetjob" || *word == "packjob")) || word->starts_with(':'))
            return tl::unexpected(directive_error(
                file, number, "Roll has no heterogeneous jobs (`:` or hetjob)",
                "submit one job for each part; --into puts them into one job group"));
        words.push_back({*std::move(word), number});
    }
    if (line.open_quote() == 0) return {};
    return tl::unexpected(directive_error(
        file, number, fmt::format("the quote {} is not closed in [{}]", line.open_quote(), text)));
}

}  // namespace

bool has_directives(std::string_view script) {
    bool found = false;
    for_each_directive(script, [&](int, std::string_view) { found = true; });
    return found;
}

Result<std::vector<DirectiveWord>> directive_words(std::string_view script,
                                                   const std::string& file) {
    if (script.find("\r\n") != std::string_view::npos)
        return fail(
            ErrorCode::InvalidArgument,
            fmt::format("{} has DOS line breaks (\\r\\n), which shells do not accept", file),
            fmt::format("sed -i 's/\\r$//' {}", file));
    std::vector<DirectiveWord> words;
    Result<void> added;
    for_each_directive(script, [&](int number, std::string_view text) {
        if (added) added = add_words(text, file, number, words);
    });
    if (!added) return tl::unexpected(std::move(added).error());
    return words;
}

}  // namespace roll::cli
