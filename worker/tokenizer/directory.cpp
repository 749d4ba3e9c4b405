#include "worker/tokenizer/directory.hpp"

#include "common/files.hpp"
#include "common/hash.hpp"
#include "common/json_file.hpp"

namespace roll::tokenizer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenizerFile = "tokenizer.json";

// Returns the text of the token at `key`. The token is written as "</s>" or {"content": "</s>",
// ...}. Returns an empty string if there is no token.
std::string content_of(const Json& config, const char* key) {
    const auto found = config.find(key);
    if (found == config.end()) return "";
    if (found->is_string()) return found->get<std::string>();
    if (found->is_object() && found->contains("content") && (*found)["content"].is_string())
        return (*found)["content"].get<std::string>();
    return "";
}

Result<std::optional<std::uint32_t>> token(const Tokenizer& tokenizer, const fs::path& directory,
                                           const Json& config, const Json& map, const char* key) {
    std::string content = content_of(config, key);
    if (content.empty()) content = content_of(map, key);
    if (content.empty()) return std::optional<std::uint32_t>();
    const auto id = tokenizer.id_of(content);
    if (!id)
        return fail(ErrorCode::InvalidArgument, directory.string() + ": " + key + " is " + content +
                                                    ", but tokenizer.json has no such token");
    return id;
}

// Returns the ids in a config's eos_token_id, which may be a number or a list of numbers.
std::vector<std::uint32_t> ids_of(const Json& config) {
    const auto found = config.find("eos_token_id");
    if (found == config.end()) return {};
    if (holds<std::uint32_t>(*found)) return {found->get<std::uint32_t>()};
    if (holds<std::vector<std::uint32_t>>(*found)) return found->get<std::vector<std::uint32_t>>();
    return {};
}

}  // namespace

bool has_tokenizer(const fs::path& directory) {
    std::error_code error;
    return fs::is_regular_file(directory / kTokenizerFile, error);
}

Result<std::string> identity_of(const fs::path& directory) {
    ROLL_TRY(const std::string text, read_file(directory / kTokenizerFile));
    return to_hex(hash64(text));
}

Result<TextTokenizer> load_directory(const fs::path& directory) {
    if (!has_tokenizer(directory))
        return fail(ErrorCode::NotFound, directory.string() + " has no " + kTokenizerFile);
    ROLL_TRY(std::string identity, identity_of(directory));
    ROLL_TRY(Tokenizer tokenizer, Tokenizer::load(directory / kTokenizerFile));
    ROLL_TRY(const Json config, read_optional_json_object(directory / "tokenizer_config.json"));
    ROLL_TRY(const Json map, read_optional_json_object(directory / "special_tokens_map.json"));
    TextTokenizer result{std::move(tokenizer), std::move(identity), {}, {}, {}};
    ROLL_TRY(result.bos, token(result.tokenizer, directory, config, map, "bos_token"));
    ROLL_TRY(result.eos, token(result.tokenizer, directory, config, map, "eos_token"));
    for (const char* name : {"generation_config.json", "config.json"}) {
        if (!result.stops.empty()) break;
        ROLL_TRY(const Json json, read_optional_json_object(directory / name));
        result.stops = ids_of(json);
    }
    if (result.stops.empty() && result.eos) result.stops = {*result.eos};
    return result;
}

TextTokenizer bytes_tokenizer() { return {Tokenizer::bytes(), "bytes", {}, {}, {}}; }

}  // namespace roll::tokenizer
