// Placeholders in the strings of a job file: "{NAME.id}", "{NAME.output}" and "{NAME.result}" refer
// to an earlier job of a chain, and "{files}" stands for the directory of the job's files. Pure.
#pragma once

#include <string>

#include "common/json.hpp"

namespace roll::spec {

// A reference to an earlier job of a chain.
struct Reference {
    std::string job;  // "previous", or a job's name
    std::string what;
};

// Replaces each "{NAME.id}", "{NAME.output}" and "{NAME.result}" in the text by the result of
// visit(reference).
template <class Visit>
std::string replace_references(const std::string& text, const Visit& visit) {
    std::string out;
    std::size_t from = 0;
    for (std::size_t at = text.find('{'); at != std::string::npos; at = text.find('{', at + 1)) {
        const std::size_t end = text.find_first_of("{}", at + 1);
        if (end == std::string::npos || text[end] != '}') continue;
        const std::string inside = text.substr(at + 1, end - at - 1);
        const std::size_t dot = inside.rfind('.');
        if (dot == std::string::npos || dot == 0) continue;
        const Reference reference{inside.substr(0, dot), inside.substr(dot + 1)};
        if (reference.what != "id" && reference.what != "output" && reference.what != "result")
            continue;
        out += text.substr(from, at - from) + visit(reference);
        from = end + 1;
    }
    return out + text.substr(from);
}

// Replaces the references in every string of `value`.
template <class Visit>
void replace_everywhere(Json& value, const Visit& visit) {
    if (value.is_string()) value = replace_references(value.get<std::string>(), visit);
    if (!value.is_array() && !value.is_object()) return;
    for (Json& inner : value) replace_everywhere(inner, visit);
}

// In the words of a command and in `workdir`, this text stands for the node's directory with the
// job's files
constexpr const char* kFilesDirectory = "{files}";

// Returns whether a path begins with a reference to an earlier job. Such a path does not exist yet.
bool is_reference(const std::string& path);

}  // namespace roll::spec
