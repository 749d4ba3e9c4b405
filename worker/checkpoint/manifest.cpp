#include "worker/checkpoint/manifest.hpp"

#include <algorithm>
#include <fstream>
#include <functional>

#include <fmt/format.h>

#include "common/files.hpp"
#include "common/hash.hpp"
#include "common/json.hpp"
#include "common/number.hpp"
#include "worker/checkpoint/optimizer_index.hpp"

namespace roll::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifestSchema = "roll.checkpoint_manifest/1";

Result<std::uint64_t> parse_hex(const std::string& text) {
    const auto value = parse_number<std::uint64_t>(text, 16);
    if (!value || text.size() != 16)
        return fail(ErrorCode::Corrupt,
                    "manifest: a checksum must have 16 hexadecimal digits, not \"" +
                        text.substr(0, 40) + "\"");
    return *value;
}

bool stays_inside(const std::string& path) {
    const fs::path p(path);
    return !path.empty() && p.is_relative() &&
           std::none_of(p.begin(), p.end(), [](const fs::path& part) { return part == ".."; });
}

Result<FileEntry> decode_entry(const Json& json) {
    JsonReader reader(json, "manifest file");
    FileEntry entry{reader.get<std::string>("path"), reader.get<std::uint64_t>("size"), 0};
    const auto hash = reader.get<std::string>("xxh3_64");
    ROLL_TRY_VOID(reader.finish());
    if (!stays_inside(entry.path))
        return fail(ErrorCode::Corrupt,
                    "manifest: this path leaves the checkpoint directory: " + entry.path);
    ROLL_TRY(entry.hash, parse_hex(hash));
    return entry;
}

Result<FileEntry> hash_file(const fs::path& directory, const std::string& path) {
    const fs::path name = directory / path;
    std::error_code error;
    const fs::file_status status = fs::status(name, error);
    if (status.type() == fs::file_type::not_found)
        return fail(ErrorCode::NotFound, name.string() + " does not exist");
    // Do not open a pipe: the open waits until another program opens the pipe, too.
    if (fs::exists(status) && !fs::is_regular_file(status))
        return fail(ErrorCode::Corrupt, name.string() + " is not a regular file");
    std::ifstream file(name, std::ios::binary);
    if (!file)
        return fail(ErrorCode::Failed,
                    "cannot open " + name.string() + ": " + std::generic_category().message(errno));
    // Read the file instead of mapping it: mapped pages would count as memory of this process, up
    // to the size of the model.
    std::vector<char> block(1 << 20);
    FileEntry entry{path, 0, 0};
    Hash64 hash;
    do {
        file.read(block.data(), std::ssize(block));
        const auto size = static_cast<std::size_t>(file.gcount());
        hash.add(std::as_bytes(std::span(block.data(), size)));
        entry.size_bytes += size;
    } while (file);
    if (file.bad()) return fail(ErrorCode::Failed, "cannot read " + name.string());
    entry.hash = hash.value();
    return entry;
}

Result<std::vector<std::string>> list_files(const fs::path& directory) {
    std::vector<std::string> paths;
    std::error_code error;
    fs::recursive_directory_iterator walk(directory, error);
    for (; !error && walk != fs::recursive_directory_iterator(); walk.increment(error)) {
        if (walk->is_directory(error) || error) continue;
        std::string path = fs::relative(walk->path(), directory, error).generic_string();
        if (path != kManifestFile) paths.push_back(std::move(path));
    }
    if (error) {
        const bool missing = error == std::errc::no_such_file_or_directory;
        return fail(missing ? ErrorCode::NotFound : ErrorCode::Failed,
                    "cannot list " + directory.string() + ": " + error.message());
    }
    std::sort(paths.begin(), paths.end());
    return paths;
}

Result<void> check_file(const fs::path& directory, const FileEntry& wanted) {
    const auto found = hash_file(directory, wanted.path);
    const std::string where = (directory / wanted.path).string();
    if (!found && found.error().code == ErrorCode::NotFound)
        return fail(ErrorCode::Corrupt, where + " is missing");
    if (!found) return tl::unexpected(found.error());
    if (found->size_bytes != wanted.size_bytes) {
        return fail(ErrorCode::Corrupt, fmt::format("{} has {} bytes; its manifest says {}", where,
                                                    found->size_bytes, wanted.size_bytes));
    }
    if (found->hash != wanted.hash)
        return fail(ErrorCode::Corrupt, where + " does not match its checksum in the manifest");
    return {};
}

// Reads a checkpoint's manifest. Fails with Corrupt if a byte of the manifest has changed.
Result<Manifest> read_manifest(const fs::path& directory) {
    ROLL_TRY(const std::string text, read_regular_file(directory / kManifestFile));
    auto manifest = decode_manifest(text);
    if (!manifest) {
        return fail(ErrorCode::Corrupt,
                    (directory / kManifestFile).string() + ": " + manifest.error().message);
    }
    // Encode the parsed manifest again, with a new checksum, and compare the texts. The comparison
    // detects any changed byte.
    if (encode(*manifest) != text) {
        return fail(ErrorCode::Corrupt,
                    (directory / kManifestFile).string() + " was changed after it was written");
    }
    return *std::move(manifest);
}

// Returns the files that this reader checks. The files are assigned in descending order of size.
// Each file goes to the reader with the fewest bytes so far.
std::vector<const FileEntry*> files_of(const Manifest& manifest, const Share& share) {
    std::vector<const FileEntry*> order;
    for (const FileEntry& file : manifest.files) order.push_back(&file);
    std::ranges::stable_sort(order, std::greater(), &FileEntry::size_bytes);
    std::vector<std::uint64_t> bytes(static_cast<std::size_t>(share.readers));
    std::vector<const FileEntry*> own;
    for (const FileEntry* file : order) {
        const auto least = std::ranges::min_element(bytes);
        *least += file->size_bytes + 1;
        if (least - bytes.begin() == share.reader) own.push_back(file);
    }
    std::ranges::sort(own, {}, &FileEntry::path);
    return own;
}

}  // namespace

std::string encode(const Manifest& manifest) {
    OrderedJson files = OrderedJson::array();
    for (const FileEntry& file : manifest.files) {
        files.push_back(
            {{"path", file.path}, {"size", file.size_bytes}, {"xxh3_64", to_hex(file.hash)}});
    }
    OrderedJson json = {{"schema", kManifestSchema},
                        {"step", manifest.name.step},
                        {"writer", to_string(manifest.name.writer)},
                        {"files", std::move(files)}};
    json["checksum"] = to_hex(hash64(json.dump()));
    return json.dump(1) + "\n";
}

Result<Manifest> decode_manifest(std::string_view text) {
    ROLL_TRY(const Json json, parse_json(text));
    JsonReader reader(json, "manifest");
    const auto schema = reader.get<std::string>("schema");
    Manifest manifest;
    manifest.name.step = reader.get<std::int64_t>("step");
    const auto writer = parse_token(reader.get<std::string>("writer"));
    const Json& files = reader.raw("files");
    ROLL_TRY_VOID(reader.finish_lenient());
    if (schema != kManifestSchema || !writer || !files.is_array())
        return fail(ErrorCode::Corrupt,
                    "manifest: the format is not " + std::string(kManifestSchema));
    manifest.name.writer = *writer;
    for (const Json& file : files) {
        ROLL_TRY(FileEntry entry, decode_entry(file));
        manifest.files.push_back(std::move(entry));
    }
    return manifest;
}

Result<std::vector<FileEntry>> hash_files(const fs::path& directory, std::vector<FileEntry> known) {
    ROLL_TRY(const std::vector<std::string> paths, list_files(directory));
    std::vector<FileEntry> files;
    for (const std::string& path : paths) {
        const auto found = std::ranges::find(known, path, &FileEntry::path);
        if (found != known.end()) {
            files.push_back(std::move(*found));
            known.erase(found);
            continue;
        }
        ROLL_TRY(FileEntry entry, hash_file(directory, path));
        files.push_back(std::move(entry));
    }
    if (!known.empty())
        return fail(ErrorCode::Corrupt, (directory / known.front().path).string() + " is missing");
    return files;
}

Result<Manifest> verify(const fs::path& directory, const Share& share) {
    ROLL_TRY(Manifest manifest, read_manifest(directory));
    for (const FileEntry* file : files_of(manifest, share))
        ROLL_TRY_VOID(check_file(directory, *file));
    ROLL_TRY(const std::vector<std::string> present, list_files(directory));
    for (const std::string& path : present) {
        const bool listed = std::any_of(manifest.files.begin(), manifest.files.end(),
                                        [&](const FileEntry& file) { return file.path == path; });
        if (!listed && !is_optimizer_state(path))
            return fail(ErrorCode::Corrupt,
                        (directory / path).string() + " is not in its manifest");
    }
    return manifest;
}

Result<void> verify_files(const fs::path& directory, const Share& share,
                          const std::function<bool(std::string_view path)>& wanted) {
    ROLL_TRY(Manifest manifest, read_manifest(directory));
    std::erase_if(manifest.files, [&](const FileEntry& file) {
        return !wanted(file.path) ||
               (is_optimizer_state(file.path) && !path_exists(directory / file.path));
    });
    for (const FileEntry* file : files_of(manifest, share))
        ROLL_TRY_VOID(check_file(directory, *file));
    return {};
}

}  // namespace roll::checkpoint
