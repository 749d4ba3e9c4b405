// Stores the pieces of the files that jobs bring along (key `files` of a job file). A piece is
// named by its SHA-256, and equal pieces are stored only once.
//
//   DIRECTORY/files/SHA256  a piece; it is written under another name and then renamed
//
// A piece is kept as long as a job in the ledger names it. A piece that no job names belongs to a
// job that is not submitted yet. Such a piece is kept for an hour. The functions block on the local
// disk of the state directory.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace roll::files {

constexpr std::chrono::hours kUnnamedFor{1};

class Pieces {
  public:
    using Instant = std::chrono::steady_clock::time_point;

    // Opens the store below the state directory `directory`. Removes the pieces that are older than
    // an hour and not in `named`. `job_bytes_max` is the maximum size of the files of a job.
    static Result<Pieces> open(const std::filesystem::path& directory,
                               const std::set<std::string>& named, std::uint64_t job_bytes_max,
                               Instant now);

    std::uint64_t job_bytes_max() const { return job_bytes_max_; }

    // Returns those of `pieces` that the store lacks. Keeps the other pieces for an hour from `now`
    // on.
    std::vector<std::string> missing(const std::vector<std::string>& pieces, Instant now);
    // Stores a piece durably and returns its SHA-256. A piece has 1 to kPieceBytes bytes; fails
    // with InvalidArgument for any other size. Fails with Refused if this user has stored too many
    // bytes for jobs that are not submitted yet, or if the disk is full.
    Result<std::string> put(std::string_view bytes, Instant now, const std::string& user = "");
    // Keeps pieces for good, because a job names them. Call name() once the job is in the ledger.
    void name(const std::vector<std::string>& pieces);

    // Returns the size of a stored piece; 0 if the store lacks it.
    std::uint64_t size_of(const std::string& piece) const;

    // Returns a piece's bytes. Fails with NotFound if the store lacks the piece, and with Corrupt
    // if the stored bytes have another SHA-256.
    Result<std::string> read(const std::string& piece) const;

  private:
    struct Unnamed {
        std::uint64_t bytes = 0;
        Instant until{};
        std::string user{};
    };
    Pieces(std::filesystem::path directory, std::uint64_t job_bytes_max)
        : directory_(std::move(directory)),
          job_bytes_max_(job_bytes_max) {}
    void forget_old(Instant now);

    std::filesystem::path directory_;
    std::uint64_t job_bytes_max_;
    std::map<std::string, std::uint64_t> stored_{};  // sizes by SHA-256
    std::map<std::string, Unnamed> unnamed_{};
};

}  // namespace roll::files
