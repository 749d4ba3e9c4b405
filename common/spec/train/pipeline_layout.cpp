#include "common/spec/train/pipeline_layout.hpp"

#include <algorithm>
#include <cctype>
#include <optional>

#include <fmt/format.h>

namespace roll::spec {
namespace {

constexpr std::size_t kSymbolsMax = 1'000'000;
constexpr std::string_view kSymbols = "EtmL|";

tl::unexpected<Error> invalid(std::string what) {
    return fail(ErrorCode::InvalidArgument, std::move(what));
}

// Reads "*N" at `at`. Returns 1 if there is no "*".
Result<std::size_t> read_count(std::string_view text, std::size_t& at) {
    if (at >= text.size() || text[at] != '*') return 1;
    const std::size_t begin = ++at;
    while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0) ++at;
    if (begin == at || at - begin > 5) return invalid("needs a number of 1 to 5 digits after *");
    return std::stoul(std::string(text.substr(begin, at - begin)));
}

Result<void> repeat(std::string& symbols, std::string_view what, std::size_t count) {
    if (symbols.size() + what.size() * count > kSymbolsMax)
        return invalid(fmt::format("has too many symbols; allowed: at most {}", kSymbolsMax));
    for (std::size_t i = 0; i < count; ++i) symbols += what;
    return {};
}

// Adds the symbols of `text`, which has no parentheses.
Result<void> add_symbols(std::string& symbols, std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
        const std::string_view symbol = text.substr(at++, 1);
        if (kSymbols.find(symbol) == std::string_view::npos)
            return invalid(
                fmt::format("has a '{}'; allowed: E, t, m, L, |, *N and (...)*N", symbol));
        ROLL_TRY(const std::size_t count, read_count(text, at));
        ROLL_TRY_VOID(repeat(symbols, symbol, count));
    }
    return {};
}

// Returns the string without repetitions.
Result<std::string> unrolled(std::string text) {
    std::erase_if(text, [](char c) { return c == ',' || c == ' '; });
    std::string symbols;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t open = std::min(text.find('(', at), text.size());
        ROLL_TRY_VOID(add_symbols(symbols, std::string_view(text).substr(at, open - at)));
        if (open == text.size()) break;
        const std::size_t close = text.find(')', open);
        if (close == std::string::npos) return invalid("has a ( without a )");
        std::string inner;
        ROLL_TRY_VOID(
            add_symbols(inner, std::string_view(text).substr(open + 1, close - open - 1)));
        at = close + 1;
        if (at >= text.size() || text[at] != '*') return invalid("needs *N after )");
        ROLL_TRY(const std::size_t count, read_count(text, at));
        ROLL_TRY_VOID(repeat(symbols, inner, count));
    }
    return symbols;
}

}  // namespace

Result<std::vector<std::string>> layout_parts(std::string_view layout) {
    ROLL_TRY(const std::string symbols, unrolled(std::string(layout)));
    std::vector<std::string> parts(1);
    for (const char symbol : symbols) {
        if (symbol == '|')
            parts.emplace_back();
        else
            parts.back() += symbol;
    }
    return parts;
}

std::string layout_string(const std::vector<std::int64_t>& layers) {
    std::string text;
    for (std::size_t i = 0; i < layers.size(); ++i) {
        std::string part = i == 0 ? "E" : "";
        const auto add = [&](const std::string& symbol) {
            part += (part.empty() ? "" : ",") + symbol;
        };
        if (layers[i] > 0) add(fmt::format("t*{}", layers[i]));
        if (i + 1 == layers.size()) add("L");
        text += (i == 0 ? "" : "|") + part;
    }
    return text;
}

}  // namespace roll::spec
