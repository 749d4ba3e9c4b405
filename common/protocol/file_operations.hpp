// The operations on the files of jobs, for clients and nodes that cannot access the jobs' file
// system. `job_file` reads logs and metrics. `pieces_missing` and `piece_put` send the input files
// that the key `files` of a job file names (common/spec/job/staged_files.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/protocol/arguments.hpp"

namespace roll::protocol {

struct JobFileArgs {
    static constexpr Operation kOperation{"job_file", Access::Read, Answering::Later,
                                          "roll.job_file/1",
                                          "Reads a range of bytes of a job's log or metrics."};
    std::uint64_t id = 0;
    std::string file{};  // one of kLogFile and kMetricsFile
    std::uint64_t rank = 0;
    std::optional<std::uint64_t> attempt{};
    std::optional<std::uint64_t> from{};
    std::optional<std::uint64_t> bytes{};
};
inline constexpr const char* kLogFile = "log";
inline constexpr const char* kMetricsFile = "metrics";

struct JobFileReply {
    std::string file{};
    std::uint64_t attempt = 0;
    std::uint64_t from = 0;
    std::uint64_t next = 0;
    std::uint64_t size = 0;
    std::int64_t written = 0;
    std::string text{};
    bool latin1 = false;
};

struct PiecesMissingArgs {
    static constexpr Operation kOperation{
        "pieces_missing", Access::Submit, Answering::AtOnce, "roll.pieces_missing/1",
        "Tells which pieces (blocks of bytes) of a job's files rolld "
        "does not have."};
    std::vector<std::string> pieces{};
};
struct PiecesMissingReply {
    std::vector<std::string> missing{};
    std::uint64_t job_bytes_max = 0;
};

struct PiecePutArgs {
    static constexpr Operation kOperation{
        "piece_put", Access::Submit, Answering::AtOnce, "roll.piece_put/1",
        "Stores a piece (block of bytes) of a job's files before the job is "
        "submitted."};
    std::string data{};
};
struct PiecePutReply {
    std::string piece{};
};

// files_too_large() returns the message of the error if the files of a job have more bytes than
// rolld accepts. kFilesTooLargeHint is the hint of this error.
std::string files_too_large(const std::string& name, std::uint64_t bytes, std::uint64_t most);
inline constexpr const char* kFilesTooLargeHint =
    "put large inputs on a volume that all nodes mount, or ask the operator to raise `rolld "
    "--job-files`";

// Returns a file's bytes as text for JSON. If the bytes are not UTF-8, sets `latin1`, and the text
// has for each byte the character with the same code.
std::string text_of_bytes(const std::string& bytes, bool& latin1);
// Returns the bytes from which text_of_bytes() made the text.
std::string bytes_of_text(const std::string& text, bool latin1);

// clang-format off
template <class V> void fields(V& v, JobFileArgs& a) {
    v.needs("id", a.id, "number of the job");
    v("file", a.file, "log (the default) or metrics");
    v("rank", a.rank, "rank whose log is read");
    v("attempt", a.attempt, "attempt whose log is read; default: the newest attempt that has logs");
    v("from", a.from, "offset of the first byte; default: the end of the file");
    v("bytes", a.bytes, "largest number of bytes in the reply, at most 131072");
}
template <class V> void fields(V& v, JobFileReply& r) {
    v("file", r.file, "path of the file");
    v("attempt", r.attempt, "attempt that wrote the log; 0 for metrics");
    v("from", r.from, "offset of the first byte of the text");
    v("next", r.next, "offset behind the last byte of the text");
    v("size", r.size, "size of the file in bytes");
    v("written", r.written, "time of the last change of the file, in ms since 1970");
    v("text", r.text, "the bytes of the file");
    v("latin1", r.latin1, "true: the bytes are not UTF-8, so `text` is Latin-1 with one character per byte");
}
template <class V> void fields(V& v, PiecesMissingArgs& a) {
    v.needs("pieces", a.pieces, "SHA-256 of each piece, in lower-case hex digits");
}
template <class V> void fields(V& v, PiecesMissingReply& r) {
    v("missing", r.missing, "pieces that the client must send with `piece_put`; rolld keeps the others for at least an hour");
    v("job_bytes_max", r.job_bytes_max, "maximum size of all files of a job");
}
template <class V> void fields(V& v, PiecePutArgs& a) {
    v.needs("data", a.data, "the bytes in base64; 1 to 262144 bytes");
}
template <class V> void fields(V& v, PiecePutReply& r) {
    v("piece", r.piece, "SHA-256 of the piece; list it in `pieces` of a file in the job's `files`");
}
// clang-format on

}  // namespace roll::protocol
