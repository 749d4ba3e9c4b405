#include "worker/checkpoint/names.hpp"

#include <charconv>

#include <fmt/format.h>

namespace roll::checkpoint {
namespace {

constexpr std::string_view kPrefix = "step-";
constexpr std::size_t kDigits = 8;

}  // namespace

std::string final_name(const Name& name) {
    return fmt::format("step-{:08}.{}", name.step, to_string(name.writer));
}

std::string staged_name(const Name& name) { return "." + final_name(name); }

std::optional<Name> parse_final_name(std::string_view text) {
    if (!text.starts_with(kPrefix)) return std::nullopt;
    text.remove_prefix(kPrefix.size());
    Name name;
    const char* const end = text.data() + text.size();
    const auto [dot, error] = std::from_chars(text.data(), end, name.step);
    if (error != std::errc{} || dot == end || *dot != '.' || name.step < 0) return std::nullopt;
    if (static_cast<std::size_t>(dot - text.data()) < kDigits) return std::nullopt;
    const auto writer = parse_token({dot + 1, static_cast<std::size_t>(end - dot - 1)});
    if (!writer) return std::nullopt;
    name.writer = *writer;
    return name;
}

std::optional<Name> parse_staged_name(std::string_view text) {
    if (!text.starts_with('.')) return std::nullopt;
    return parse_final_name(text.substr(1));
}

}  // namespace roll::checkpoint
