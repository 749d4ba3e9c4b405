#include "common/spec/check/document_size.hpp"

#include <fmt/format.h>

#include "common/json_size.hpp"
#include "common/spec/check/member.hpp"

namespace roll::spec {
namespace {

struct Largest {
    std::string path;
    std::size_t bytes = 0;
};

// Sets `largest` to the largest string in the value.
void find_largest(const Json& value, const std::string& path, Largest& largest) {
    if (const auto* text = value.get_ptr<const std::string*>()) {
        const std::size_t bytes = most_bytes(*text);
        if (bytes > largest.bytes) largest = {path, bytes};
    }
    if (value.is_object())
        for (const auto& [key, inner] : value.items())
            find_largest(inner, path.empty() ? key : path + "." + key, largest);
    if (value.is_array())
        for (std::size_t i = 0; i < value.size(); ++i)
            find_largest(value[i], fmt::format("{}[{}]", path, i), largest);
}

// Counts the bytes that execve needs for a program's arguments. Each string needs its bytes, a
// final zero and a pointer.
class Arguments {
  public:
    explicit Arguments(std::vector<Problem>& problems) : problems_(problems) {}

    // Adds an argument. Calls `path` only if the argument is too long.
    template <class Path>
    void add(std::size_t bytes, const Path& path) {
        constexpr std::size_t kPointer = 8;
        bytes_ += bytes + 1 + kPointer;
        if (bytes <= kArgumentBytesMax) return;
        problems_.push_back(
            {path(),
             fmt::format("has {} bytes; allowed: at most {} for one argument or environment "
                         "variable; put it into a file, or into `script`",
                         bytes, kArgumentBytesMax)});
    }
    void add_command(const std::string& path, const Json& command) {
        if (!command.is_array()) return;
        for (std::size_t i = 0; i < command.size(); ++i) {
            if (!command[i].is_string()) continue;
            const auto& text = command[i].get_ref<const std::string&>();
            add(text.size(), [&] { return fmt::format("{}[{}]", path, i); });
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

}  // namespace

Problem too_large(const std::string& path, std::size_t bytes, std::size_t total) {
    return {path, fmt::format("is {} bytes long, so the whole job is {} bytes long; a job may have "
                              "at most {}; move this value to a file that the job reads",
                              bytes, total, kDocumentBytesMax)};
}

std::vector<Problem> undeliverable(const Json& document) {
    std::vector<Problem> problems;
    if (!document.is_object()) return problems;
    const std::size_t bytes = most_bytes(document);
    if (bytes > kDocumentBytesMax) {
        Largest largest;
        find_largest(document, "", largest);
        problems.push_back(too_large(largest.path, largest.bytes, bytes));
        return problems;
    }
    Arguments arguments(problems);
    arguments.add_command("command", member(document, "command"));
    const Json& environment = member(document, "env");
    if (environment.is_object()) {
        for (const auto& [name, value] : environment.items()) {
            const auto* text = value.get_ptr<const std::string*>();
            arguments.add(name.size() + 1 + (text == nullptr ? 0 : text->size()),
                          [&] { return "env." + name; });
        }
    }
    arguments.check_total("command");
    const Json& check = member(document, "check");
    if (check.is_object())
        Arguments(problems).add_command("check.command", member(check, "command"));
    return problems;
}

}  // namespace roll::spec
