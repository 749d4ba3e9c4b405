#include "worker/tokenizer/normal_form.hpp"

#include <algorithm>

#include "worker/tokenizer/unicode.hpp"
#include "worker/tokenizer/unicode_tables.hpp"

namespace roll::tokenizer {
namespace {

// Constants of Hangul syllables, which are computed by arithmetic (Unicode standard, section 3.12).
constexpr char32_t kS = 0xAC00, kL = 0x1100, kV = 0x1161, kT = 0x11A7;
constexpr char32_t kLCount = 19, kVCount = 21, kTCount = 28, kSCount = kLCount * kVCount * kTCount;

// The smallest character that combines with a preceding character, and the first byte of its UTF-8
// form. If all characters of a text are smaller, the text is already composed.
constexpr char32_t kFirstCombining = 0x300;
constexpr std::uint8_t kFirstCombiningByte = 0xCC;

}  // namespace

Composer::Composer() {
    for (std::size_t i = 0; i < kDecompositions_size; ++i) {
        const std::uint64_t row = kDecompositions[i];
        const auto field = [row](int shift) {
            return static_cast<char32_t>(row >> shift & 0x1FFFFF);
        };
        parts_[field(42)] = {field(21), field(0)};
        if (row >> 63 != 0)
            composites_[static_cast<std::uint64_t>(field(21)) << 32 | field(0)] = field(42);
    }
    for (std::size_t i = 0; i + 1 < kCombiningRuns_size; ++i) {
        const auto value = static_cast<std::uint8_t>(kCombiningRuns[i] & 0xFF);
        for (char32_t code = kCombiningRuns[i] >> 8;
             value != 0 && code < kCombiningRuns[i + 1] >> 8; ++code)
            classes_[code] = value;
    }
}

const Composer& Composer::get() {
    // built at run time, because the table is too large for the source text
    static const Composer composer;
    return composer;
}

void Composer::decompose(char32_t code, std::vector<char32_t>& out) const {
    if (code >= kS && code < kS + kSCount) {
        const char32_t index = code - kS;
        out.push_back(kL + index / (kVCount * kTCount));
        out.push_back(kV + index % (kVCount * kTCount) / kTCount);
        if (index % kTCount != 0) out.push_back(kT + index % kTCount);
        return;
    }
    const auto parts = code < 0xC0 ? parts_.end() : parts_.find(code);
    if (parts == parts_.end()) return out.push_back(code);
    decompose(parts->second.first, out);
    if (parts->second.second != 0) decompose(parts->second.second, out);
}

char32_t Composer::pair(char32_t first, char32_t second) const {
    if (first >= kL && first < kL + kLCount && second >= kV && second < kV + kVCount)
        return kS + ((first - kL) * kVCount + (second - kV)) * kTCount;
    if (first >= kS && first < kS + kSCount && (first - kS) % kTCount == 0 && second > kT &&
        second < kT + kTCount)
        return first + (second - kT);
    const auto found = composites_.find(static_cast<std::uint64_t>(first) << 32 | second);
    return found == composites_.end() ? 0 : found->second;
}

std::string Composer::compose(std::string_view text) const {
    const auto combines = [](char byte) {
        return static_cast<std::uint8_t>(byte) >= kFirstCombiningByte;
    };
    if (std::none_of(text.begin(), text.end(), combines)) return std::string(text);
    std::vector<char32_t> codes;
    for (const char* at = text.data(); at < text.data() + text.size();)
        decompose(next_code_point(at), codes);
    const auto class_of = [this](char32_t code) -> std::uint8_t {
        if (code < kFirstCombining) return 0;
        const auto found = classes_.find(code);
        return found == classes_.end() ? 0 : found->second;
    };
    std::vector<std::pair<std::uint8_t, char32_t>> marked(codes.size());
    for (std::size_t i = 0; i < codes.size(); ++i) marked[i] = {class_of(codes[i]), codes[i]};
    const auto by_class = [](const auto& a, const auto& b) { return a.first < b.first; };
    for (auto run = marked.begin(); run != marked.end();) {
        auto stop = run + 1;
        if (run->first != 0) {
            while (stop != marked.end() && stop->first != 0) ++stop;
            std::stable_sort(run, stop, by_class);
        }
        run = stop;
    }
    std::size_t size = 0;
    // index of the last starter (character of class 0); marked.size() if there is none yet
    std::size_t starter = marked.size();
    // combining class of the last character after the starter; -1 if there is no such character
    int last_class = -1;
    for (const auto& [combining, code] : marked) {
        if (starter < marked.size() && last_class < static_cast<int>(combining)) {
            if (const char32_t composite = pair(marked[starter].second, code); composite != 0) {
                marked[starter].second = composite;
                continue;
            }
        }
        last_class = combining;
        if (combining == 0) {
            starter = size;
            last_class = -1;
        }
        marked[size++] = {combining, code};
    }
    std::string result;
    for (std::size_t i = 0; i < size; ++i) append_utf8(result, marked[i].second);
    return result;
}

}  // namespace roll::tokenizer
