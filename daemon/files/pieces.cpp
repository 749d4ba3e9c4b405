#include "daemon/files/pieces.hpp"

#include <system_error>

#include <fmt/format.h>

#include "common/files.hpp"
#include "common/io/sha256.hpp"
#include "common/spec/job/staged_files.hpp"
#include "common/spec/schema/units.hpp"

namespace roll::files {
namespace {

// For jobs that are not submitted yet, a user may store up to kJobsWaiting * job_bytes_max_ bytes.
constexpr std::uint64_t kJobsWaiting = 16;

}  // namespace

Result<Pieces> Pieces::open(const std::filesystem::path& directory,
                            const std::set<std::string>& named, std::uint64_t job_bytes_max,
                            Instant now) {
    Pieces pieces(directory / "files", job_bytes_max);
    std::error_code error;
    for (std::filesystem::directory_iterator file(pieces.directory_, error), end; file != end;
         file.increment(error)) {
        if (error) break;
        const std::string name = file->path().filename();
        std::error_code kept;
        const auto age =
            std::filesystem::file_time_type::clock::now() - file->last_write_time(kept);
        const bool is_new = spec::is_sha256(name) && age < kUnnamedFor;
        if (!named.contains(name) && !is_new) {
            std::filesystem::remove(file->path(), kept);
            continue;
        }
        pieces.stored_[name] = file->file_size(kept);
        if (named.contains(name)) continue;
        pieces.unnamed_[name] = {pieces.stored_[name], now + kUnnamedFor};
    }
    return pieces;
}

// Removes the pieces whose job was not submitted in time.
void Pieces::forget_old(Instant now) {
    std::erase_if(unnamed_, [&](const auto& item) {
        const auto& [piece, unnamed] = item;
        if (now < unnamed.until) return false;
        std::error_code error;
        std::filesystem::remove(directory_ / piece, error);
        stored_.erase(piece);
        return true;
    });
}

std::vector<std::string> Pieces::missing(const std::vector<std::string>& pieces, Instant now) {
    std::vector<std::string> missing;
    for (const std::string& piece : pieces) {
        if (!stored_.contains(piece)) missing.push_back(piece);
        const auto unnamed = unnamed_.find(piece);
        if (unnamed != unnamed_.end()) unnamed->second.until = now + kUnnamedFor;
    }
    return missing;
}

Result<std::string> Pieces::put(std::string_view bytes, Instant now, const std::string& user) {
    if (bytes.empty() || bytes.size() > spec::kPieceBytes)
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("the piece has {} bytes; allowed: 1 to {}", bytes.size(),
                                spec::kPieceBytes));
    std::string piece = io::sha256(bytes);
    forget_old(now);
    if (missing({piece}, now).empty()) return piece;
    std::uint64_t waiting = 0;
    for (const auto& [name, one] : unnamed_)
        if (one.user == user) waiting += one.bytes;
    if (waiting + bytes.size() > kJobsWaiting * job_bytes_max_)
        return fail(
            ErrorCode::Refused,
            fmt::format("rolld already stores {} of files for jobs that are not submitted yet; it "
                        "accepts more files once these jobs are submitted, or after {} min",
                        spec::size_text(static_cast<std::int64_t>(waiting)),
                        std::chrono::minutes(kUnnamedFor).count()));
    ROLL_TRY_VOID(make_directories(directory_));
    ROLL_TRY_VOID(write_file_atomically(directory_ / piece, bytes));
    stored_[piece] = bytes.size();
    unnamed_[piece] = {bytes.size(), now + kUnnamedFor, user};
    return piece;
}

void Pieces::name(const std::vector<std::string>& pieces) {
    for (const std::string& piece : pieces) unnamed_.erase(piece);
}

std::uint64_t Pieces::size_of(const std::string& piece) const {
    const auto found = stored_.find(piece);
    return found == stored_.end() ? 0 : found->second;
}

Result<std::string> Pieces::read(const std::string& piece) const {
    if (!stored_.contains(piece))
        return fail(ErrorCode::NotFound,
                    fmt::format("rolld does not have piece {} of the job's `files`; submit the "
                                "job again",
                                piece.substr(0, 64)));
    ROLL_TRY(std::string bytes, read_file(directory_ / piece));
    if (io::sha256(bytes) != piece)
        return fail(
            ErrorCode::Corrupt,
            fmt::format(
                "rolld's copy of a part of the job's `files` is damaged ({}); submit the job again",
                piece));
    return bytes;
}

}  // namespace roll::files
