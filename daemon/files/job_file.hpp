// Opens and reads the logs and the metrics of jobs for clients. A job may put anything into its
// output directory. Therefore no symbolic link is followed there, only regular files are read, and
// only pieces of limited size.
//
// The functions block while the volume hangs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "common/error.hpp"
#include "common/io/descriptor.hpp"
#include "common/json.hpp"
#include "common/time.hpp"

namespace roll::files {

constexpr std::size_t kPieceBytesMax = 256u << 10;  // maximum size of a piece

// The places to which a job writes.
struct JobPlaces {
    std::filesystem::path output;  // absolute path of the output directory
    std::string log_name{};        // `stdout` of the job file; empty: the job does not name its log
    // `workdir` of the job file. `log_name` is relative to this directory, or to `output` if
    // `workdir` is empty.
    std::string workdir{};
    std::string job_name{};  // value of %x in `log_name`
};

// Returns the places of a job with this output directory. `document` is its job file.
JobPlaces places_of(const std::filesystem::path& output, const Json& document);

struct OpenFile {
    io::Descriptor descriptor;
    std::uint64_t size = 0;
    Time written{};  // time of the last change
    std::uint64_t inode = 0;
};

// Opens the log of a rank, OUTPUT/logs/attempt-N/rank-R.log. If the job file names a log file,
// roll-worker makes OUTPUT/.../rank-R.log a link to this file. A link is followed only if it leads
// to a file that the job file names, outside of rolld's state directory `state`. Fails with
// NotFound if the log does not exist. Fails with Refused if the log is any other link, or not a
// regular file.
Result<OpenFile> open_log(const JobPlaces& places, std::uint32_t attempt, std::uint32_t rank,
                          const std::filesystem::path& state);

// Opens OUTPUT/metrics.jsonl. Fails like open_log().
Result<OpenFile> open_metrics(const JobPlaces& places);

// Returns the newest of the attempts 1 to `attempts` that has a directory of logs; nullopt if none
// has one.
std::optional<std::uint32_t> newest_with_logs(const JobPlaces& places, std::uint32_t attempts);

// Returns at most `count` bytes from the offset `at` on; fewer at the end of the file.
Result<std::string> read_at(const OpenFile& file, std::uint64_t at, std::uint64_t count);

struct Piece {
    std::uint64_t from = 0;  // offset of the first byte
    std::string bytes;
};
// Returns at most `count` bytes from the offset `from` on. Returns the last bytes of the file if
// `from` is nullopt, or if the file is now shorter than `from`: the head of the file may have been
// cut off. If the file continues after the piece, the piece ends with a complete UTF-8 character.
Result<Piece> read_piece(const OpenFile& file, std::optional<std::uint64_t> from,
                         std::uint64_t count = kPieceBytesMax);

}  // namespace roll::files
