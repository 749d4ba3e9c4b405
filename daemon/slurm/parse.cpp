#include "daemon/slurm/parse.hpp"

#include <algorithm>
#include <array>
#include <csignal>

#include "common/number.hpp"
#include "common/split.hpp"

namespace roll::slurm {
namespace {

// Splits a line into `count` fields. The last field is the rest of the line. Returns nullopt if the
// line has fewer fields.
std::optional<std::vector<std::string_view>> split(std::string_view line, std::size_t count) {
    std::vector<std::string_view> fields;
    while (fields.size() + 1 < count) {
        const std::size_t at = line.find('|');
        if (at == std::string_view::npos) return std::nullopt;
        fields.push_back(line.substr(0, at));
        line.remove_prefix(at + 1);
    }
    fields.push_back(line);
    return fields;
}

// Replaces unprintable characters, because they could control the terminal that displays the text.
std::string shown(std::string_view text) {
    std::string kept(text);
    std::ranges::replace_if(
        kept, [](char c) { return c < ' ' || c > '~'; }, '?');
    return kept;
}

// Splits output into lines. Fails if the output does not end with a newline, because such output
// was truncated.
Result<std::vector<std::string_view>> lines_of(std::string_view text, const char* program) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        if (end == std::string_view::npos)
            return fail(ErrorCode::Corrupt, std::string(program) +
                                                "'s output was cut: it ends with " +
                                                shown(text.substr(0, 60)));
        if (end > 0) lines.push_back(text.substr(0, end));
        text.remove_prefix(end + 1);
    }
    return lines;
}

tl::unexpected<Error> odd(const char* program, std::string_view line) {
    return fail(ErrorCode::Corrupt,
                std::string(program) + " wrote an unexpected line: " + shown(line.substr(0, 80)));
}

std::optional<QueueRow> queue_row(std::string_view line) {
    const auto fields = split(line, 8);
    if (!fields) return std::nullopt;
    const auto& f = *fields;
    const auto nodes = parse_number<int>(f[5]);
    if (f[0].empty() || f[1].empty() || !nodes) return std::nullopt;
    QueueRow row;
    row.id = f[0];
    row.state = f[1];
    row.phase = phase_of(f[1]);
    row.reason = f[2];
    row.start = parse_number<std::int64_t>(f[3]);  // nullopt if squeue prints "N/A"
    row.end = parse_number<std::int64_t>(f[4]);
    row.nodes = *nodes;
    row.comment = f[7];
    return row;
}

// Parses a time limit such as "1-00:00:00", "30:00" or "infinite". Returns seconds; nullopt if
// there is no limit.
std::optional<std::int64_t> limit_of(std::string_view text) {
    std::int64_t days = 0;
    if (const std::size_t dash = text.find('-'); dash != std::string_view::npos) {
        const auto read = parse_number<std::int64_t>(text.substr(0, dash));
        if (!read) return std::nullopt;
        days = *read;
        text.remove_prefix(dash + 1);
    }
    std::int64_t seconds = 0;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(':'), text.size());
        const auto part = parse_number<std::int64_t>(text.substr(0, end));
        if (!part) return std::nullopt;
        seconds = seconds * 60 + *part;
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return days * 86'400 + seconds;
}

// Returns the number of GPUs in a list of generic resources: 10 for
// "gpu:h200:8(S:0-1),gpu:a100:2,shard:16", 0 for "(null)".
int gpus_of(std::string_view gres) {
    int gpus = 0;
    for (const std::string& part : split_at(gres, ',')) {
        const std::string_view item = std::string_view(part).substr(0, part.find('('));
        if (!item.starts_with("gpu")) continue;
        const std::size_t colon = item.rfind(':');
        gpus += colon == std::string_view::npos
                    ? 1
                    : parse_number<int>(item.substr(colon + 1)).value_or(1);
    }
    return gpus;
}

// Returns the text between the first `key` and the next blank; empty if the line has no `key`.
std::string_view word_after(std::string_view line, std::string_view key) {
    const std::size_t at = line.find(key);
    if (at == std::string_view::npos) return {};
    const std::string_view rest = line.substr(at + key.size());
    const std::size_t end = rest.find(' ');
    return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

}  // namespace

// Parses squeue's output. The comment of a job that Roll did not submit may contain newlines, so
// the parser skips malformed lines after the row of such a job. The comments of Roll's jobs contain
// no newlines, so a malformed line after the row of a Roll job is an error.
Result<std::vector<QueueRow>> parse_queue(std::string_view text) {
    ROLL_TRY(const auto lines, lines_of(text, "squeue"));
    std::vector<QueueRow> rows;
    for (const std::string_view line : lines) {
        auto row = queue_row(line);
        if (row) {
            rows.push_back(*std::move(row));
        } else if (rows.empty() || rows.back().comment.starts_with("roll:")) {
            return odd("squeue", line);
        }
    }
    return rows;
}

// Takes the job's id from the last line, because a site's wrapper of sbatch may print other lines
// first.
Result<std::string> parse_submitted(std::string_view text) {
    ROLL_TRY(const auto lines, lines_of(text, "sbatch"));
    if (lines.empty()) return fail(ErrorCode::Corrupt, "sbatch printed no job id");
    const std::string_view id = lines.back().substr(0, lines.back().find(';'));
    if (!parse_number<std::uint64_t>(id)) return odd("sbatch", lines.back());
    return std::string(id);
}

Result<std::vector<PartitionRow>> parse_partitions(std::string_view text) {
    ROLL_TRY(const auto lines, lines_of(text, "sinfo"));
    std::vector<PartitionRow> rows;
    for (const std::string_view line : lines) {
        const auto fields = split(line, 6);
        if (!fields) return odd("sinfo", line);
        const auto& f = *fields;
        const auto nodes = parse_number<int>(f[3]);
        if (f[0].empty() || !nodes) return odd("sinfo", line);
        // sinfo prints "16+" if the nodes have different sizes
        const auto cpus = parse_number<int>(f[4].substr(0, f[4].find('+')));
        rows.push_back({std::string(f[0]), f[1] == "up", limit_of(f[2]), *nodes, cpus.value_or(0),
                        gpus_of(f[5])});
    }
    return rows;
}

// Parses lines such as "NodeName=n1 Arch=... State=DOWN+DRAIN ThreadsPerCore=... BootTime=...
// Reason=...". Free text (Reason, Comment, Extra) comes after the fields that are read here and
// therefore cannot imitate them.
Result<std::vector<NodeRow>> parse_nodes(std::string_view text) {
    ROLL_TRY(const auto lines, lines_of(text, "scontrol"));
    std::vector<NodeRow> rows;
    for (const std::string_view line : lines) {
        if (line.starts_with("Node ") && line.ends_with(" not found")) continue;
        const auto name = word_after(line, "NodeName=");
        const auto state = word_after(line, " State=");
        if (!line.starts_with("NodeName=") || name.empty() || state.empty())
            return odd("scontrol", line);
        rows.push_back({std::string(name), std::string(state), is_down(state)});
    }
    return rows;
}

// Decides from the result of sbatch whether the job was queued. A timeout, a signal or a connection
// error means Unknown. Any other failure means Refused, even if the error text is not known. If the
// job was queued nevertheless, rolld finds it by its comment and cancels it.
//
// sbatch exits with 255 for invalid arguments, and with 128 + N after signal
// N.
Submission judge_submission(bool timed_out, int exit_code, std::string_view errors) {
    if (timed_out) return Submission::Unknown;
    if (exit_code == 0) return Submission::Accepted;
    // Messages about connection errors: from slurm_errno.c (22.05.8 to 26.05.3) and from the
    // system's sockets.
    static constexpr std::array kTransport = std::to_array<std::string_view>({
        "Unable to contact slurm controller",
        "Socket timed out",
        "Zero Bytes were transmitted",
        "Connection refused",
        "Connection timed out",
        "Connection reset",
        "Connection rejected",
        "Connection forced closed",
        "No route to host",
        "Transport endpoint",
        "Unexpected message received",
        "Unexpected missing socket",
        "Header lengths are longer",
        "Message receive failure",
        "Message send failure",
        "Communication connection failure",
        "Communication shutdown failure",
        "Insane message length",
        "file descriptor",
        "Rate limit exceeded",
        "try again",
        "temporarily unable to accept job",
        "Resource temporarily unavailable",
        "in standby mode",
        "Protocol authentication error",
        "Munge",
    });
    const bool transport = std::ranges::any_of(
        kTransport, [&](std::string_view text) { return errors.find(text) != errors.npos; });
    const bool killed = exit_code > 128 && exit_code <= 128 + SIGRTMAX;
    return transport || killed ? Submission::Unknown : Submission::Refused;
}

}  // namespace roll::slurm
