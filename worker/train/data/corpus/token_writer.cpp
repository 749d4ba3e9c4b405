#include "worker/train/data/corpus/token_writer.hpp"

#include "common/files.hpp"
#include "common/hash.hpp"
#include "common/json.hpp"
#include "worker/train/data/corpus/token_file.hpp"

namespace roll::data {
namespace {

namespace fs = std::filesystem;

// Maximum length of a sequence. The .idx stores the length as i32, so a longer document consists of
// several sequences.
constexpr std::uint64_t kSequenceMax = 1ULL << 30;
// An entry of the .sequences file: the length of a sequence times 2, plus 1 if the sequence ends
// its document.
using SequenceRecord = std::uint32_t;

constexpr const char *kTokens = ".bin", *kIndex = ".idx", *kSequences = ".sequences",
                     *kBad = ".bad", *kState = ".state";

template <class T>
void put(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
std::string packed(const std::vector<std::uint32_t>& ids) {
    std::string bytes;
    bytes.reserve(ids.size() * sizeof(T));
    for (const std::uint32_t id : ids) put(bytes, static_cast<T>(id));
    return bytes;
}

constexpr std::pair<const char*, std::uint64_t WriteProgress::*> kStateFields[] = {
    {"offset", &WriteProgress::offset},       {"lines", &WriteProgress::lines},
    {"tokens", &WriteProgress::tokens},       {"sequences", &WriteProgress::sequences},
    {"documents", &WriteProgress::documents}, {"open", &WriteProgress::open},
    {"bad_lines", &WriteProgress::bad_lines}, {"bad_bytes", &WriteProgress::bad_bytes}};

Result<WriteProgress> read_state(const fs::path& path) {
    std::error_code error;
    if (!fs::exists(path, error)) return WriteProgress{};
    ROLL_TRY(const std::string text, read_file(path));
    ROLL_TRY(const Json json, parse_json(text));
    JsonReader reader(json, path.string());
    WriteProgress progress;
    for (const auto& [name, field] : kStateFields)
        progress.*field = reader.get<std::uint64_t>(name);
    progress.text_hash = reader.get_or<std::uint64_t>("text_hash", 0);
    ROLL_TRY_VOID(reader.finish());
    return progress;
}

std::string state_text(const WriteProgress& progress) {
    Json json;
    for (const auto& [name, field] : kStateFields) json[name] = progress.*field;
    json["text_hash"] = progress.text_hash;
    return json.dump();
}

void erase(const fs::path& path) {
    std::error_code gone_already;
    fs::remove(path, gone_already);
}

}  // namespace

fs::path with_suffix(fs::path path, const char* suffix) { return path += suffix; }

std::uint64_t join_hashes(std::uint64_t before, std::uint64_t slice) {
    return hash64(std::as_bytes(std::span(&slice, 1)), before);
}

TokenWriter::TokenWriter(fs::path base, TokenType type) : base_(std::move(base)), type_(type) {}

fs::path TokenWriter::path(const char* suffix) const { return with_suffix(base_, suffix); }

Result<TokenWriter> TokenWriter::open(const fs::path& base, TokenType type) {
    auto writer = go_on(base, type);
    if (writer || writer.error().code != ErrorCode::Corrupt) return writer;
    discard(base);  // start from the beginning, because the files contradict each other
    return go_on(base, type);
}

Result<TokenWriter> TokenWriter::go_on(const fs::path& base, TokenType type) {
    TokenWriter writer(base, type);
    ROLL_TRY(writer.progress_, read_state(writer.path(kState)));
    const WriteProgress& done = writer.progress_;
    ROLL_TRY(writer.tokens_, AppendFile::open(writer.path(kTokens), done.tokens * size_of(type)));
    ROLL_TRY(writer.sequences_,
             AppendFile::open(writer.path(kSequences), done.sequences * sizeof(SequenceRecord)));
    ROLL_TRY(writer.bad_, AppendFile::open(writer.path(kBad), done.bad_bytes));
    return writer;
}

void TokenWriter::end_sequence(std::uint64_t tokens, bool ends_document, std::string& records) {
    put(records, static_cast<SequenceRecord>(2 * tokens + (ends_document ? 1 : 0)));
    ++progress_.sequences;
    progress_.documents += ends_document;
    progress_.open -= tokens;
}

Result<void> TokenWriter::append(const Encoded& encoded) {
    ROLL_TRY_VOID(tokens_.append(type_ == TokenType::Uint16 ? packed<std::uint16_t>(encoded.ids)
                                                            : packed<std::int32_t>(encoded.ids)));
    std::string records;
    std::size_t counted = 0;
    for (std::size_t i = 0; i <= encoded.document_ends.size(); ++i) {
        const bool ends = i < encoded.document_ends.size();
        const std::size_t end = ends ? encoded.document_ends[i] : encoded.ids.size();
        progress_.open += end - counted;
        counted = end;
        while (progress_.open > kSequenceMax) end_sequence(kSequenceMax, false, records);
        if (ends) end_sequence(progress_.open, true, records);
    }
    ROLL_TRY_VOID(sequences_.append(records));
    std::string bad;
    for (const BadLine& line : encoded.bad)
        bad.append(std::to_string(progress_.lines + line.line) + '\t' + line.reason + '\t')
            .append(line.text)
            .append("\n");
    ROLL_TRY_VOID(bad_.append(bad));
    const bool known = progress_.offset == 0 || progress_.text_hash != 0;
    progress_.text_hash = known ? join_hashes(progress_.text_hash, encoded.text_hash) : 0;
    progress_.offset = encoded.end;
    progress_.lines += encoded.lines;
    progress_.tokens += encoded.ids.size();
    progress_.bad_lines += encoded.bad.size();
    progress_.bad_bytes += bad.size();
    return {};
}

Result<void> TokenWriter::sync() {
    ROLL_TRY_VOID(tokens_.sync());
    ROLL_TRY_VOID(sequences_.sync());
    ROLL_TRY_VOID(bad_.sync());
    return write_file_atomically(path(kState), state_text(progress_));
}

// Writes the .idx. Reads the sequences three times: first for the lengths, then for the offsets and
// the document starts.
Result<void> TokenWriter::write_index() {
    ROLL_TRY(const MappedFile mapped, MappedFile::open(path(kSequences)));
    const auto record = [&](std::uint64_t i) {
        SequenceRecord value;
        std::memcpy(&value, mapped.bytes().data() + i * sizeof value, sizeof value);
        return value;
    };
    const fs::path draft = path(".idx.draft");
    ROLL_TRY(AppendFile index, AppendFile::open(draft, 0));
    std::string out(kIndexMagic, 9);
    put(out, kIndexVersion);
    put(out, static_cast<std::uint8_t>(type_));
    put(out, progress_.sequences);
    put(out, progress_.documents + 1);
    const auto leave = [&](std::size_t above) -> Result<void> {
        if (out.size() <= above) return {};
        ROLL_TRY_VOID(index.append(out));
        out.clear();
        return {};
    };
    constexpr std::size_t kBlock = 1 << 20;
    for (std::uint64_t i = 0; i < progress_.sequences; ++i) {
        put(out, static_cast<std::int32_t>(record(i) / 2));
        ROLL_TRY_VOID(leave(kBlock));
    }
    for (std::uint64_t i = 0, at = 0; i < progress_.sequences; ++i) {
        put(out, static_cast<std::int64_t>(at * size_of(type_)));
        at += record(i) / 2;
        ROLL_TRY_VOID(leave(kBlock));
    }
    put(out, std::int64_t{0});
    for (std::uint64_t i = 0; i < progress_.sequences; ++i) {
        if (record(i) % 2 == 1) put(out, static_cast<std::int64_t>(i + 1));
        ROLL_TRY_VOID(leave(kBlock));
    }
    ROLL_TRY_VOID(leave(0));
    ROLL_TRY_VOID(index.sync());
    return rename_new(draft, path(kIndex));
}

Result<void> TokenWriter::finish() {
    // End the open document here, because the last slice of the text has produced no tokens.
    if (progress_.open > 0) {
        std::string record;
        end_sequence(progress_.open, true, record);
        ROLL_TRY_VOID(sequences_.append(record));
    }
    ROLL_TRY_VOID(sync());
    ROLL_TRY_VOID(write_index());
    erase(path(kSequences));
    erase(path(kState));
    if (progress_.bad_lines == 0) erase(path(kBad));
    return {};
}

std::uint64_t TokenWriter::synced(const fs::path& base) {
    return read_state(with_suffix(base, kState)).value_or(WriteProgress{}).offset;
}

void TokenWriter::discard(const fs::path& base) {
    for (const char* suffix : {kTokens, kSequences, kBad, kState, ".idx.draft"})
        erase(with_suffix(base, suffix));
}

}  // namespace roll::data
