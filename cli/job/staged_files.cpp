#include "cli/job/staged_files.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

#include "common/base64.hpp"
#include "common/files.hpp"
#include "common/io/sha256.hpp"
#include "common/protocol/file_operations.hpp"
#include "common/spec/job/staged_files.hpp"
#include "common/spec/schema/units.hpp"

namespace roll::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kReadMax = 1u << 30;  // rolld rejects larger files

Error wrong_file(const std::string& path, const std::string& why) {
    return {ErrorCode::InvalidArgument, fmt::format("files: {} {}", path, why),
            "give PATH or PATH:NAME of a small file that you can read"};
}

// Reads a file that is given as "PATH" or "PATH:NAME".
Result<spec::StagedFile> read_staged(const std::string& given, const std::string& base,
                                     PieceBytes& pieces) {
    const std::size_t colon = given.rfind(':');
    const fs::path path = fs::path(base) / given.substr(0, colon);
    spec::StagedFile file;
    file.name = colon == given.npos ? path.filename().string() : given.substr(colon + 1);
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) return tl::unexpected(wrong_file(path, "does not exist"));
    if (fs::is_directory(status))
        return tl::unexpected(wrong_file(path, "is a directory; name each of its files"));
    if (!fs::is_regular_file(status))
        return tl::unexpected(wrong_file(path, "is not a regular file"));
    if (const std::string why = spec::wrong_file_name(file.name); !why.empty())
        return tl::unexpected(wrong_file(given, "has a NAME that " + why));
    if (const auto size = fs::file_size(path, error); !error && size > kReadMax)
        return fail(ErrorCode::Refused,
                    protocol::files_too_large(path, size, std::uint64_t{kReadMax}),
                    protocol::kFilesTooLargeHint);
    auto content = read_regular_file(path);
    if (!content)
        return tl::unexpected(wrong_file(path, "cannot be read: " + content.error().message));
    file.bytes = content->size();
    file.executable = ::access(path.c_str(), X_OK) == 0 &&
                      (status.permissions() & fs::perms::owner_exec) != fs::perms::none;
    for (std::size_t at = 0; at < content->size(); at += spec::kPieceBytes) {
        std::string bytes = content->substr(at, spec::kPieceBytes);
        file.pieces.push_back(io::sha256(bytes));
        pieces[file.pieces.back()] = std::move(bytes);
    }
    return file;
}

// For each job in the document and in its chain, adds up the sizes of the job's files. Returns the
// largest of these sums.
std::uint64_t largest_job(const Json& document) {
    std::uint64_t bytes = 0, largest = 0;
    for (const spec::StagedFile& file : spec::staged_files(document)) bytes += file.bytes;
    if (document.is_object() && document.contains("then"))
        for (const Json& next : document["then"]) largest = std::max(largest, largest_job(next));
    return std::max(bytes, largest);
}

}  // namespace

Result<void> read_files(Json& document, const std::string& base, PieceBytes& pieces) {
    if (!document.is_object()) return {};
    if (document.contains("then") && document["then"].is_array())
        for (Json& next : document["then"]) ROLL_TRY_VOID(read_files(next, base, pieces));
    if (!document.contains("files") || !document["files"].is_array()) return {};
    for (Json& one : document["files"]) {
        if (!one.is_string()) continue;
        ROLL_TRY(const spec::StagedFile file, read_staged(one.get<std::string>(), base, pieces));
        one = spec::to_json(file);
    }
    return {};
}

Result<void> send_files(Daemon& daemon, const std::vector<Json>& documents,
                        const PieceBytes& pieces) {
    if (pieces.empty()) return {};
    protocol::PiecesMissingArgs wanted;
    for (const auto& [piece, bytes] : pieces) wanted.pieces.push_back(piece);
    ROLL_TRY(const Json reply, daemon.ask_patiently(wanted, kRestartPatience));
    const auto most = reply.value("job_bytes_max", std::uint64_t{0});
    for (const Json& document : documents)
        if (const std::uint64_t bytes = largest_job(document); bytes > most)
            return fail(ErrorCode::Refused,
                        protocol::files_too_large(document.value("name", "the job"), bytes, most),
                        protocol::kFilesTooLargeHint);
    // Send one piece at a time, so that rolld can answer other clients in between
    for (const auto& piece : reply.value("missing", std::vector<std::string>{})) {
        const auto found = pieces.find(piece);
        if (found == pieces.end()) continue;
        ROLL_TRY(const Json stored,
                 daemon.ask_patiently(protocol::PiecePutArgs{to_base64(found->second)},
                                      kRestartPatience));
        static_cast<void>(stored);
    }
    return {};
}

}  // namespace roll::cli
