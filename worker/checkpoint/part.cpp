#include "worker/checkpoint/part.hpp"

#include <fmt/format.h>

#include "common/files.hpp"
#include "common/json.hpp"

namespace roll::checkpoint {
namespace {

namespace fs = std::filesystem;

fs::path report_file(const fs::path& staged, int rank) {
    return staged / kFolder / fmt::format("part-{:05}.json", rank);
}

// Returns the text of the part's report file. The text contains a manifest of the files and an
// index of the optimizer state.
std::string encode(const Part& part) {
    const OrderedJson json = {{"manifest", encode(Manifest{part.name, part.files})},
                              {"optimizer", encode(part.optimizer)}};
    return json.dump() + "\n";
}

Result<Part> decode_part(const std::string& text) {
    ROLL_TRY(const Json json, parse_json(text));
    JsonReader reader(json, "part");
    const auto files = reader.get<std::string>("manifest");
    const auto optimizer = reader.get<std::string>("optimizer");
    ROLL_TRY_VOID(reader.finish());
    ROLL_TRY(Manifest manifest, decode_manifest(files));
    ROLL_TRY(OptimizerIndex index, decode_optimizer_index(optimizer));
    return Part{manifest.name, std::move(manifest.files), std::move(index)};
}

Result<Part> read_part(const fs::path& staged, const Name& name, int rank) {
    const std::string who = "the part of rank " + std::to_string(rank);
    const auto text = read_file(report_file(staged, rank));
    if (!text) return fail(ErrorCode::Corrupt, who + " is missing: " + text.error().message);
    auto part = decode_part(*text);
    if (!part) return fail(ErrorCode::Corrupt, who + ": " + part.error().message);
    if (!(part->name == name))
        return fail(ErrorCode::Corrupt, who + " belongs to " + final_name(part->name));
    for (const FileEntry& file : part->files) {
        std::error_code error;
        const auto size = fs::file_size(staged / file.path, error);
        if (error || size != file.size_bytes)
            return fail(ErrorCode::Corrupt,
                        fmt::format("{}: {} has {} bytes, but {} were written", who, file.path,
                                    error ? 0 : size, file.size_bytes));
    }
    return part;
}

void join(OptimizerIndex& all, OptimizerIndex part) {
    all.updates = std::max(all.updates, part.updates);
    all.optimizer = std::move(part.optimizer);
    for (auto& [name, parameter] : part.parameters) {
        StoredParameter& joined = all.parameters[name];
        joined.shape = std::move(parameter.shape);
        for (StoredBox& box : parameter.boxes) joined.boxes.push_back(std::move(box));
    }
}

}  // namespace

Result<void> write_part(const fs::path& staged, int rank, const Part& part) {
    ROLL_TRY_VOID(make_directories(staged / kFolder));
    return write_file_atomically(report_file(staged, rank), encode(part));
}

Result<std::vector<FileEntry>> join_parts(const fs::path& staged, const Name& name, int ranks) {
    std::vector<FileEntry> files;
    OptimizerIndex index;
    for (int rank = 0; rank < ranks; ++rank) {
        ROLL_TRY(Part part, read_part(staged, name, rank));
        for (FileEntry& file : part.files) files.push_back(std::move(file));
        join(index, std::move(part.optimizer));
    }
    // Even an optimizer without state has an index, which stores the number of updates.
    ROLL_TRY_VOID(make_directories(staged / kOptimizerFolder));
    ROLL_TRY_VOID(write_file_atomically(staged / kOptimizerIndexFile, encode(index)));
    for (int rank = 0; rank < ranks; ++rank) {
        std::error_code error;
        fs::remove(report_file(staged, rank), error);
        if (error)
            return fail(ErrorCode::Failed, "cannot delete " + report_file(staged, rank).string() +
                                               ": " + error.message());
    }
    return files;
}

}  // namespace roll::checkpoint
