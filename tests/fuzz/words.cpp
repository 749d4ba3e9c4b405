// Fuzzes command lines, with one word per line. Any words are refused with a sentence, or give a
// request that can be written as a job's spec and read back. Also tries the rules for names on
// every word, and layouts on a model of some layers.
#include <string>
#include <vector>

#include "common/check.hpp"
#include "tests/fuzz/input.hpp"
#include "worker/convert/command/options.hpp"
#include "worker/convert/request.hpp"
#include "worker/layout/stages.hpp"

namespace {

using namespace roll::convert;

std::vector<std::string> words_of(std::string_view text) {
    std::vector<std::string> words(1);
    for (const char c : text) {
        if (c == '\n')
            words.emplace_back();
        else
            words.back() += c;
    }
    return words;
}

void check_job(const Request& request) {
    const roll::spec::ConvertSpec spec = spec_of(request);
    const auto again = request_of(spec);
    ROLL_CHECK(again && spec_of(*again) == spec);
    if (request.layout.pp * request.layout.vpp > 64) return;
    const auto ranges = roll::layout::split_layers(24, request.layout);
    if (!ranges) return;
    std::int64_t layers = 0;
    for (const auto& stage : *ranges)
        for (const auto& range : stage) layers += range.end - range.begin;
    ROLL_CHECK(layers == 24);
}

void check_rule(const NameRule& rule, const std::vector<std::string>& words) {
    for (const std::string& word : words)
        if (const auto renamed = renamed_by(rule, word))
            ROLL_CHECK(rule.to.has_value() || renamed->empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::vector<std::string> words = words_of(roll::fuzz::text_of(data, size));
    const auto line = parse_command_line(words);
    if (!line) ROLL_CHECK(!line.error().message.empty());
    if (!line) return 0;
    if (const auto* convert = std::get_if<ConvertCommand>(&*line)) check_job(convert->request);
    if (const auto* edit = std::get_if<EditCommand>(&*line))
        for (const NameRule& rule : edit->request.rules) check_rule(rule, words);
    return 0;
}
