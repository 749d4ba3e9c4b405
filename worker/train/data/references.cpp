#include "worker/train/data/references.hpp"

#include <algorithm>
#include <cstring>

#include "common/files.hpp"
#include "common/hash.hpp"
#include "common/json.hpp"
#include "worker/train/data/corpus/fingerprint.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRecord = "reference.json";
constexpr const char* kRecordSchema = "roll.reference/1";
// The first 8 bytes of a file of values. The values follow as doubles, then the XXH3-64 of the
// values.
constexpr std::string_view kMagic = "rollref1";

}  // namespace

void PairReferences::add(const data::CorpusFile& file, std::size_t pairs) {
    values_[&file] = PairValues(pairs, {kUnknown, kUnknown});
}

Result<std::string> model_identity(const fs::path& directory) {
    std::error_code error;
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(directory, error))
        if (entry.is_regular_file(error)) files.push_back(entry.path());
    if (error) return fail(ErrorCode::NotFound, directory.string() + ": " + error.message());
    std::ranges::sort(files);
    Json all = Json::array();
    for (const fs::path& file : files) {
        const auto time = fs::last_write_time(file, error).time_since_epoch().count();
        const auto size = fs::file_size(file, error);
        if (error) return fail(ErrorCode::Failed, file.string() + ": " + error.message());
        std::string samples;
        if (size > 0) {
            ROLL_TRY(const MappedFile bytes, MappedFile::open(file));
            samples = data::sample_hash(bytes.bytes());
        }
        all.push_back({file.lexically_relative(directory).string(), size, time, samples});
    }
    return to_hex(hash64(all.dump()));
}

std::optional<PairValues> read_values(const fs::path& path, std::size_t pairs) {
    const auto text = read_file(path);
    PairValues values(pairs);
    const std::size_t bytes = pairs * sizeof(PairValues::value_type);
    std::uint64_t hash = 0;
    if (!text || text->size() != kMagic.size() + bytes + sizeof hash || !text->starts_with(kMagic))
        return std::nullopt;
    std::memcpy(values.data(), text->data() + kMagic.size(), bytes);
    std::memcpy(&hash, text->data() + kMagic.size() + bytes, sizeof hash);
    if (hash != hash64(std::as_bytes(std::span(values)))) return std::nullopt;
    return values;
}

Result<void> write_values(const fs::path& path, const PairValues& values) {
    const auto bytes = std::as_bytes(std::span(values));
    const std::uint64_t hash = hash64(bytes);
    std::string text(kMagic);
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    text.append(reinterpret_cast<const char*>(&hash), sizeof hash);
    ROLL_TRY_VOID(make_directories(path.parent_path()));
    return write_file_atomically(path, text);
}

std::optional<ReferenceRecord> read_reference(const fs::path& output) {
    const auto text = read_file(output / kRecord);
    if (!text) return std::nullopt;
    const auto json = parse_json(*text);
    if (!json || !json->is_object()) return std::nullopt;
    const auto word = [&](const char* key) { return json->value(key, std::string()); };
    if (word("schema") != kRecordSchema) return std::nullopt;
    return ReferenceRecord{word("model"), word("identity")};
}

Result<void> write_reference(const fs::path& output, const ReferenceRecord& record) {
    ROLL_TRY_VOID(make_directories(output));
    const OrderedJson json = {
        {"schema", kRecordSchema}, {"model", record.model}, {"identity", record.identity}};
    return write_file_atomically(output / kRecord, json.dump(1) + "\n");
}

}  // namespace roll::train
