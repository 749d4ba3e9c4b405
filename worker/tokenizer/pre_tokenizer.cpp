#include "worker/tokenizer/pre_tokenizer.hpp"

#include <algorithm>
#include <map>

#include "worker/tokenizer/normalizer.hpp"

namespace roll::tokenizer {
namespace {

constexpr const char* kByteLevelExpression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Returns how many of a text's first `head` bytes are at offset `begin` or later.
std::size_t rest_of(std::size_t head, std::size_t begin) { return head - std::min(head, begin); }

}  // namespace

// State of one call of split(). The call works depth first: it emits each word before it searches
// for the next word. Therefore it stores no list of words.
struct PreTokenizer::Run {
    const PreTokenizer& owner;
    Scratch& scratch;
    WordSink& sink;

    void step(std::size_t index, std::string_view text, std::size_t head) {
        if (text.empty()) return;
        if (index == owner.steps_.size()) return sink.word(text);
        std::visit([&](const auto& which) { apply(which, index, text, head); },
                   owner.steps_[index]);
    }

    void apply(const Spaced&, std::size_t index, std::string_view text, std::size_t head) {
        if (text.front() == ' ') return step(index + 1, text, head);
        scratch[index].assign(" ").append(text);
        step(index + 1, scratch[index], head);
    }

    void apply(const Digits& digits, std::size_t index, std::string_view text, std::size_t head) {
        const PropertyTable& table = PropertyTable::get();
        std::size_t begin = 0;
        bool previous = false;
        for (const char* at = text.data(); at < text.data() + text.size();) {
            const auto place = static_cast<std::size_t>(at - text.data());
            const bool numeric = is_numeric(next_code_point(at), table);
            if (place > begin && (numeric != previous || (numeric && digits.individual))) {
                step(index + 1, text.substr(begin, place - begin), rest_of(head, begin));
                begin = place;
            }
            previous = numeric;
        }
        step(index + 1, text.substr(begin), rest_of(head, begin));
    }

    void apply(const Metaspace& meta, std::size_t index, std::string_view text, std::size_t head) {
        std::string& spaced = scratch[index];
        spaced.clear();
        const bool prepend =
            meta.prepend == Prepend::Always || (meta.prepend == Prepend::First && head > 0);
        if (prepend && text.front() != ' ' && !text.starts_with(meta.replacement))
            spaced = meta.replacement;
        for (const char byte : text) {
            if (byte == ' ') {
                spaced += meta.replacement;
            } else {
                spaced += byte;
            }
        }
        if (!meta.split) return step(index + 1, spaced, head);
        const std::string_view whole = spaced;
        for (std::size_t begin = 0; begin < whole.size();) {
            const std::size_t end = std::min(
                whole.size(), whole.find(meta.replacement,
                                         begin + (whole.substr(begin).starts_with(meta.replacement)
                                                      ? meta.replacement.size()
                                                      : 1)));
            step(index + 1, whole.substr(begin, end - begin), rest_of(head, begin));
            begin = end;
        }
    }

    void apply(const Split& split, std::size_t index, std::string_view text, std::size_t head) {
        // [held_begin, held_end): joined pieces that were not yet passed to the next step
        std::size_t held_begin = 0;
        std::size_t held_end = 0;
        bool previous = false;
        const auto leave = [&] {
            step(index + 1, text.substr(held_begin, held_end - held_begin),
                 rest_of(head, held_begin));
        };
        const auto joins = [&](bool is_match) {
            switch (split.behavior) {
                case Behavior::Contiguous: return is_match == previous;
                case Behavior::WithPrevious: return is_match && !previous;
                case Behavior::WithNext: return previous && !is_match;
                case Behavior::Isolated:
                case Behavior::Removed: return false;
            }
            return false;
        };
        split.pattern.split(text, [&](std::size_t begin, std::size_t end, bool matched) {
            const bool is_match = matched != split.invert;
            if (!joins(is_match)) {
                leave();
                held_begin = begin;
            }
            held_end = end;
            if (is_match && split.behavior == Behavior::Removed) held_begin = end;
            previous = is_match;
        });
        leave();
    }
};

void PreTokenizer::split(std::string_view text, std::size_t head, Scratch& scratch,
                         WordSink& sink) const {
    if (scratch.size() < steps_.size()) scratch.resize(steps_.size());
    Run{*this, scratch, sink}.step(0, text, head);
}

Result<MetaspaceFields> parse_metaspace(JsonReader& reader) {
    MetaspaceFields fields{.replacement = reader.get<std::string>("replacement"),
                           .prepend_scheme = reader.get_or<std::string>("prepend_scheme", "always"),
                           .split = reader.get_or("split", true)};
    reader.get_or<std::string>("str_rep", "");
    if (!reader.get_or("add_prefix_space", true)) fields.prepend_scheme = "never";
    if (fields.replacement.empty() ||
        fields.replacement.size() != character_size(fields.replacement.front()))
        return fail(ErrorCode::InvalidArgument, "Metaspace needs one character as replacement");
    return fields;
}

Result<void> PreTokenizer::add_metaspace(JsonReader& reader) {
    ROLL_TRY(MetaspaceFields fields, parse_metaspace(reader));
    static const std::map<std::string_view, Prepend> schemes{
        {"always", Prepend::Always}, {"first", Prepend::First}, {"never", Prepend::Never}};
    const auto scheme = schemes.find(fields.prepend_scheme);
    if (scheme == schemes.end()) {
        return fail(ErrorCode::InvalidArgument,
                    "Metaspace prepend_scheme \"" + fields.prepend_scheme + "\" is not supported");
    }
    steps_.emplace_back(Metaspace{std::move(fields.replacement), scheme->second, fields.split});
    return reader.finish();
}

Result<void> PreTokenizer::add_byte_level(JsonReader& reader) {
    if (reader.get_or("add_prefix_space", true)) steps_.emplace_back(Spaced{});
    reader.get_or("trim_offsets", true);
    if (reader.get_or("use_regex", true)) {
        ROLL_TRY(Pattern pattern, Pattern::compile(kByteLevelExpression));
        steps_.emplace_back(Split{.pattern = std::move(pattern)});
    }
    byte_level_ = true;
    return reader.finish();
}

Result<void> PreTokenizer::add_split(JsonReader& reader) {
    ROLL_TRY(Pattern pattern, parse_pattern(reader.raw("pattern"), "pre_tokenizer Split"));
    const auto name = reader.get<std::string>("behavior");
    static const std::map<std::string_view, Behavior> behaviors{
        {"Removed", Behavior::Removed},
        {"Isolated", Behavior::Isolated},
        {"MergedWithPrevious", Behavior::WithPrevious},
        {"MergedWithNext", Behavior::WithNext},
        {"Contiguous", Behavior::Contiguous}};
    const auto behavior = behaviors.find(name);
    if (behavior == behaviors.end())
        return fail(ErrorCode::InvalidArgument, "Split behavior \"" + name + "\" is not supported");
    steps_.emplace_back(
        Split{std::move(pattern), behavior->second, reader.get_or("invert", false)});
    return reader.finish();
}

Result<void> PreTokenizer::add_whitespace_split(JsonReader& reader) {
    ROLL_TRY(Pattern pattern, Pattern::compile(R"(\s)"));
    steps_.emplace_back(Split{.pattern = std::move(pattern), .behavior = Behavior::Removed});
    return reader.finish();
}

Result<void> PreTokenizer::add(const Json& json, int depth) {
    ROLL_TRY(const std::string type, parse_type(json, "the pre_tokenizer"));
    if (byte_level_)
        return fail(ErrorCode::InvalidArgument, "a pre_tokenizer after ByteLevel is not supported");
    JsonReader reader(json, "pre_tokenizer " + type);
    reader.get<std::string>("type");
    if (type == "ByteLevel") return add_byte_level(reader);
    if (type == "Split") return add_split(reader);
    if (type == "Metaspace") return add_metaspace(reader);
    if (type == "WhitespaceSplit") return add_whitespace_split(reader);
    if (type == "Digits") {
        steps_.emplace_back(Digits{reader.get_or("individual_digits", false)});
        return reader.finish();
    }
    if (type == "Sequence" && depth < kNestingMax) {
        ROLL_TRY(const Json* parts,
                 parse_list(reader.raw("pretokenizers"), "pre_tokenizer Sequence"));
        for (const Json& part : *parts) ROLL_TRY_VOID(add(part, depth + 1));
        return reader.finish();
    }
    return fail(ErrorCode::InvalidArgument, "pre_tokenizer \"" + type + "\" is not supported");
}

Result<PreTokenizer> PreTokenizer::parse(const Json& json) {
    PreTokenizer result;
    if (!json.is_null()) ROLL_TRY_VOID(result.add(json, 0));
    return result;
}

}  // namespace roll::tokenizer
