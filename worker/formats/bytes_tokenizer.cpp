#include "worker/formats/bytes_tokenizer.hpp"

namespace roll::formats {
namespace {

constexpr const char* kMark = "roll_tokenizer";

std::string utf8(int code_point) {
    if (code_point < 0x80) return {static_cast<char>(code_point)};
    return {static_cast<char>(0xC0 | (code_point >> 6)),
            static_cast<char>(0x80 | (code_point & 0x3F))};
}

bool is_printable(int byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// Returns the vocabulary of the byte tokenizer: maps each visible character of
// byte-level tokenizers to the byte that it stands for. Printable Latin-1
// characters stand for their own bytes, and the characters from U+0100 on for the
// other bytes.
Json vocabulary() {
    Json vocabulary = Json::object();
    int next = 256;
    for (int byte = 0; byte < 256; ++byte)
        vocabulary[utf8(is_printable(byte) ? byte : next++)] = byte;
    return vocabulary;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> bytes_tokenizer_files() {
    const Json byte_level{{"type", "ByteLevel"},
                          {"add_prefix_space", false},
                          {"trim_offsets", true},
                          {"use_regex", false}};
    const Json tokenizer{{"version", "1.0"},
                         {"truncation", nullptr},
                         {"padding", nullptr},
                         {"added_tokens", Json::array()},
                         {"normalizer", nullptr},
                         {"pre_tokenizer", byte_level},
                         {"post_processor", nullptr},
                         {"decoder", byte_level},
                         {"model",
                          {{"type", "BPE"},
                           {"dropout", nullptr},
                           {"unk_token", nullptr},
                           {"continuing_subword_prefix", nullptr},
                           {"end_of_word_suffix", nullptr},
                           {"fuse_unk", false},
                           {"byte_fallback", false},
                           {"vocab", vocabulary()},
                           {"merges", Json::array()}}}};
    const Json config{{"tokenizer_class", "PreTrainedTokenizerFast"},
                      {"clean_up_tokenization_spaces", false}};
    return {{"tokenizer.json", tokenizer.dump(2) + "\n"},
            {"tokenizer_config.json", config.dump(2) + "\n"}};
}

void mark_bytes_tokenizer(Json& hf_config) { hf_config[kMark] = "bytes"; }

void unmark_bytes_tokenizer(Json& hf_config) {
    if (hf_config.is_object()) hf_config.erase(kMark);
}

bool has_bytes_tokenizer(const Json& hf_config) {
    const auto mark = hf_config.find(kMark);
    return mark != hf_config.end() && *mark == "bytes";
}

}  // namespace roll::formats
