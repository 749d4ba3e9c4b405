#include "cli/submit/job_sizes.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "common/spec/check/document_size.hpp"
#include "common/spec/schema/schema.hpp"

namespace roll::cli {
namespace {

// A YAML document with more bytes than this is refused without being parsed, because parsing YAML
// takes 0.4 us per byte. A smaller document is refused if its values alone exceed the maximum size
// of a job document.
constexpr std::size_t kYamlBytesMax = 2 * spec::kDocumentBytesMax;
// Tolerance of the size check in bytes. certain_bytes() also counts the spaces between the elements
// of flow lists, which are not part of the document. A document has at most 100,000 elements.
constexpr std::size_t kSpacesMax = 128 << 10;
// Maximum number of surplus bytes that an escape sequence in a quoted string adds to the count. The
// sequence has at most 10 bytes in the file and stands for at least one byte of the document.
constexpr std::size_t kEscapeLoss = 9;

// Returns the key at the start of a line of block YAML or indented JSON; empty if there is none.
std::string_view key_of(std::string_view line) {
    const std::size_t quote = line.starts_with('"') || line.starts_with('\'') ? 1 : 0;
    const auto is_other = [](unsigned char c) { return std::isalnum(c) == 0 && c != '_'; };
    const auto* const begin = line.begin() + quote;
    const auto* const end = std::find_if(begin, line.end(), is_other);
    const std::string_view after = line.substr(static_cast<std::size_t>(end - line.begin()));
    if (end == begin || (quote == 1 && !after.starts_with(line.front()))) return {};
    const std::string_view colon = after.substr(quote);
    if (!colon.starts_with(':') || (colon.size() > 1 && colon[1] != ' ')) return {};
    return {begin, end};
}

// Returns whether the line starts a block scalar: "key: |" or "key: >-".
bool begins_block(std::string_view line) {
    const std::size_t mark = line.find_last_not_of("0123456789+- \r");
    return mark != line.npos && mark > 0 && line[mark - 1] == ' ' &&
           (line[mark] == '|' || line[mark] == '>');
}

// Returns a lower bound of the bytes that the line adds to the document. Indentation, comments and
// repeated spaces do not count.
std::size_t certain_bytes(std::string_view line, bool in_block) {
    std::size_t bytes = 0, lost = 0;
    char before = ' ';
    for (const char c : line) {
        if (c == '#' && before == ' ' && !in_block) break;
        if (c != ' ' || before != ' ') ++bytes;
        if (c == '\\') lost += kEscapeLoss;
        before = c;
    }
    return bytes - std::min(bytes, lost);
}

// Measures the values of one YAML document line by line, without a YAML parser.
class Sizes {
  public:
    void add(std::string_view line, int number) {
        bytes_ += line.size() + 1;
        const std::size_t indent = line.find_first_not_of(' ');
        if (indent == line.npos) return grow(line.size() + 1);
        const bool in_block = in_block_ && indent > keys_.back().indent;
        certain_ += certain_bytes(line, in_block);
        if (in_block) return grow(line.size() + 1);
        const std::string_view key = key_of(line.substr(indent));
        if (key.empty()) return grow(line.size() + 1);
        while (!keys_.empty() && keys_.back().indent >= indent) keys_.pop_back();
        std::string path = keys_.empty() ? "" : keys_.back().path;
        path += path.empty() ? "" : ".";
        keys_.push_back({path.append(key), indent, number, 0});
        in_block_ = begins_block(line);
        grow(line.size() - indent - key.size());
    }
    // Returns a problem if the document is too large. The problem names the key with the longest
    // value.
    std::optional<std::string> problem() const {
        if (bytes_ <= kYamlBytesMax && certain_ <= spec::kDocumentBytesMax + kSpacesMax)
            return std::nullopt;
        const spec::Problem found = spec::too_large(largest_.path, largest_.bytes, bytes_);
        if (largest_.path.empty()) return "a value " + found.message;
        return fmt::format("line {}: {} {}", largest_.line, found.path, found.message);
    }

  private:
    struct Key {
        std::string path;
        std::size_t indent = 0;
        int line = 0;
        std::size_t bytes = 0;
    };
    void grow(std::size_t bytes) {
        if (keys_.empty()) keys_.push_back({});
        keys_.back().bytes += bytes;
        if (keys_.back().bytes > largest_.bytes) largest_ = keys_.back();
    }

    std::vector<Key> keys_;  // the current key and its parents
    Key largest_;
    std::size_t bytes_ = 0;
    std::size_t certain_ = 0;  // lower bound of the parsed document's size in bytes
    bool in_block_ = false;
};

// Calls `use` with each line and its number.
template <class Use>
void for_each_line(std::string_view text, Use use) {
    int number = 0;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        use(text.substr(0, end), ++number);
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

}  // namespace

Result<void> check_sizes(std::string_view text, const std::string& file) {
    if (text.size() <= spec::kDocumentBytesMax) return {};
    std::optional<std::string> problem;
    Sizes sizes;
    for_each_line(text, [&](std::string_view line, int number) {
        if (line.starts_with("---")) {
            if (!problem) problem = sizes.problem();
            sizes = Sizes();
        }
        sizes.add(line, number);
    });
    if (!problem) problem = sizes.problem();
    if (!problem) return {};
    return fail(ErrorCode::InvalidArgument,
                fmt::format("{} cannot be queued:\n  {}", file, *problem));
}

}  // namespace roll::cli
