#include "common/spec/check/document_size.hpp"

#include <string_view>

#include <fmt/format.h>

namespace roll::spec {
namespace {

// Returns an upper bound of the number of bytes that dump() writes for the string. The bound is at
// most a few bytes too high.
std::size_t bytes_of(std::string_view text) {
    std::size_t bytes = text.size() + 3;
    for (const unsigned char c : text) bytes += c < 0x20 ? 5 : c == '"' || c == '\\' ? 1 : 0;
    return bytes;
}

struct Largest {
    std::string path;
    std::size_t bytes = 0;
};

// Returns an upper bound of the number of bytes that dump() writes for the value. Sets `largest` to
// the largest string in the value.
std::size_t measure(const Json& value, const std::string& path, Largest& largest) {
    constexpr std::size_t kNumber = 26;
    std::size_t bytes = kNumber;
    if (const auto* text = value.get_ptr<const std::string*>()) {
        bytes = bytes_of(*text);
        if (bytes > largest.bytes) largest = {path, bytes};
    }
    if (value.is_object()) {
        for (const auto& [key, inner] : value.items())
            bytes += bytes_of(key) + measure(inner, path.empty() ? key : path + "." + key, largest);
    }
    if (value.is_array()) {
        for (std::size_t i = 0; i < value.size(); ++i)
            bytes += measure(value[i], fmt::format("{}[{}]", path, i), largest);
    }
    return bytes;
}

// Counts the bytes that execve needs for a program's arguments. Each string needs its bytes, a
// final zero and a pointer.
class Arguments {
  public:
    explicit Arguments(std::vector<Problem>& problems) : problems_(problems) {}

    void add(const std::string& path, std::size_t bytes) {
        constexpr std::size_t kPointer = 8;
        bytes_ += bytes + 1 + kPointer;
        if (bytes <= kArgumentBytesMax) return;
        problems_.push_back(
            {path, fmt::format("has {} bytes; allowed: at most {} for one argument or environment "
                               "variable; put it into a file, or into `script`",
                               bytes, kArgumentBytesMax)});
    }
    void add_command(const std::string& path, const Json& command) {
        if (!command.is_array()) return;
        for (std::size_t i = 0; i < command.size(); ++i) {
            if (!command[i].is_string()) continue;
            const auto& text = command[i].get_ref<const std::string&>();
            add(fmt::format("{}[{}]", path, i), text.size());
            if (i == 0 && text.empty())
                problems_.push_back({path + "[0]", "is empty; allowed: the name of a program"});
        }
    }
    void check_total(const std::string& path) {
        if (bytes_ <= kArgumentsBytesMax) return;
        problems_.push_back(
            {path, fmt::format("and env have {} bytes; allowed: at most {} for all arguments and "
                               "environment variables; put them into a file",
                               bytes_, kArgumentsBytesMax)});
    }

  private:
    std::vector<Problem>& problems_;
    std::size_t bytes_ = 0;
};

const Json& member(const Json& object, const char* key) {
    static const Json kNone;
    const auto found = object.find(key);
    return found == object.end() ? kNone : *found;
}

}  // namespace

Problem too_large(const std::string& path, std::size_t bytes, std::size_t total) {
    return {path, fmt::format("is {} bytes long, so the whole job is {} bytes long; a job may have "
                              "at most {}; move this value to a file that the job reads",
                              bytes, total, kDocumentBytesMax)};
}

std::vector<Problem> undeliverable(const Json& document) {
    std::vector<Problem> problems;
    if (!document.is_object()) return problems;
    Largest largest;
    const std::size_t bytes = measure(document, "", largest);
    if (bytes > kDocumentBytesMax) {
        problems.push_back(too_large(largest.path, largest.bytes, bytes));
        return problems;
    }
    Arguments arguments(problems);
    arguments.add_command("command", member(document, "command"));
    const Json& environment = member(document, "env");
    if (environment.is_object()) {
        for (const auto& [name, value] : environment.items()) {
            const auto* text = value.get_ptr<const std::string*>();
            arguments.add("env." + name, name.size() + 1 + (text == nullptr ? 0 : text->size()));
        }
    }
    arguments.check_total("command");
    const Json& check = member(document, "check");
    if (check.is_object())
        Arguments(problems).add_command("check.command", member(check, "command"));
    return problems;
}

}  // namespace roll::spec
