#include "worker/train/data/corpus/token_record.hpp"

#include <algorithm>

#include "common/files.hpp"

namespace roll::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSchema = "roll.tokens/1";
constexpr const char* kSuffix = ".made";

}  // namespace

Result<std::optional<TokenRecord>> read_record(const fs::path& base) {
    const fs::path file = fs::path(base) += kSuffix;
    const auto text = read_file(file);
    if (!text && text.error().code == ErrorCode::NotFound) return std::optional<TokenRecord>();
    if (!text) return tl::unexpected(text.error());
    ROLL_TRY(const Json json, parse_json(*text));
    JsonReader reader(json, file.string());
    TokenRecord record;
    const auto schema = reader.get<std::string>("schema");
    record.source = reader.get<std::string>("source");
    record.rules = reader.raw("rules");
    record.source_samples = reader.get<std::string>("source_samples");
    record.text_hash = reader.get<std::string>("text_hash");
    record.samples = reader.get<std::string>("samples");
    record.hash = reader.get<std::string>("hash");
    ROLL_TRY_VOID(reader.finish_lenient());
    if (schema != kSchema)
        return fail(ErrorCode::Corrupt, file.string() + " does not have the format " + kSchema);
    return std::optional(std::move(record));
}

Result<void> write_record(const fs::path& base, const TokenRecord& record) {
    const OrderedJson json = {{"schema", kSchema},
                              {"source", record.source},
                              {"rules", record.rules},
                              {"source_samples", record.source_samples},
                              {"text_hash", record.text_hash},
                              {"samples", record.samples},
                              {"hash", record.hash}};
    return write_file_atomically(fs::path(base) += kSuffix, json.dump(1) + "\n");
}

std::vector<std::pair<fs::path, TokenRecord>> find_records(const fs::path& directory,
                                                           const std::string& source,
                                                           const Json& rules) {
    std::vector<std::pair<fs::path, TokenRecord>> found;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(directory, error)) {
        if (entry.path().extension() != kSuffix) continue;
        const fs::path base = fs::path(entry.path()).replace_extension();
        const auto record = read_record(base);
        if (!record || !*record || (*record)->source != source || (*record)->rules != rules)
            continue;
        if (fs::exists(fs::path(base) += ".idx", error)) found.emplace_back(base, **record);
    }
    std::ranges::sort(found, {}, [](const auto& one) { return one.first; });
    return found;
}

Result<bool> check_tokens(const fs::path& bin, std::span<const std::byte> bytes,
                          const TokenRecord& record, bool all, const GoOn& go_on) {
    std::optional<std::string> hash;
    if (all) {
        hash = whole_hash(bytes, go_on);
        if (!hash) return false;
    }
    if (sample_hash(bytes) == record.samples && (!hash || *hash == record.hash)) return true;
    return fail(ErrorCode::Corrupt, bin.string() +
                                        " has changed since it was written; delete this file and "
                                        "its .idx, and Roll creates both again");
}

}  // namespace roll::data
