#include "cli/show/files_of_job.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/show/job_view.hpp"
#include "cli/text/render.hpp"
#include "common/files.hpp"
#include "common/spec/job/resources.hpp"
#include "common/spec/schema/array.hpp"

namespace roll::cli {
namespace {

namespace fs = std::filesystem;

std::vector<int> attempts_with_logs(const fs::path& logs) {
    std::vector<int> attempts;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(logs, error)) {
        const std::string name = entry.path().filename();
        constexpr std::string_view kPrefix = "attempt-";
        int number = 0;
        if (!name.starts_with(kPrefix)) continue;
        const char* end = name.data() + name.size();
        if (std::from_chars(name.data() + kPrefix.size(), end, number).ptr == end) {
            attempts.push_back(number);
        }
    }
    return attempts;
}

}  // namespace

int tasks_per_node(const Json& document) {
    if (!document.is_object()) return 1;
    const Json resources = document.value("resources", Json());
    return resources.is_object() ? resources.value("tasks_per_node", 1) : 1;
}

Result<std::vector<int>> log_ranks(const Json& job, const std::string& text) {
    const Json resources = job.value("resources", Json::object());
    const std::string kind = field_text(job, "kind");
    const bool ranked = kind == "train" || kind == "resume";
    const Json spec = job.value("spec", Json());
    const int each = ranked ? spec::ranks_on_node(resources) : tasks_per_node(spec);
    const auto asked = spec::array_indices(text);
    if (text != "all" && !asked)
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("--rank is {}; allowed: ranks such as 0 or 0,2-3, or all", text));
    const bool shared = spec.is_object() && spec.value("log_files", "rank") == "node";
    std::set<int> ranks;
    const auto add = [&](int rank) { ranks.insert(shared ? rank - rank % each : rank); };
    if (asked) std::ranges::for_each(*asked, add);
    for (int rank = 0; !asked && rank < resources.value("nodes", 1) * each; ++rank) add(rank);
    return std::vector<int>(ranks.begin(), ranks.end());
}

Result<fs::path> log_file(const fs::path& output, std::optional<int> attempt, int rank) {
    const auto attempts = attempts_with_logs(output / "logs");
    if (attempts.empty()) {
        return fail(ErrorCode::NotFound,
                    fmt::format("there is no log in {}/logs", output.string()));
    }
    const int number = attempt.value_or(*std::max_element(attempts.begin(), attempts.end()));
    const fs::path file =
        output / "logs" / fmt::format("attempt-{}", number) / fmt::format("rank-{}.log", rank);
    if (!path_exists(file)) {
        return fail(ErrorCode::NotFound, fmt::format("there is no log {}", file.string()),
                    "ls " + (output / "logs").string());
    }
    return file;
}

bool never_ran(const Json& job) {
    return is_over(job) && job.value("attempts", Json::array()).empty();
}

tl::unexpected<Error> fail_never_ran(const Json& job, const char* what) {
    const std::string id = field_text(job, "id");
    return fail(ErrorCode::NotFound,
                fmt::format("job {} has no {}, because it ended without an attempt", id, what),
                "rollctl show " + id);
}

// A job has no files before its first attempt.
bool JobFiles::is_remote(const Json& job) const {
    if (remote_) return true;
    const bool started = !job.value("attempts", Json::array()).empty();
    return started && ::access(field_text(job, "output").c_str(), R_OK | X_OK) != 0;
}

Result<StoredFile> JobFiles::log(const Json& job, std::optional<int> attempt, int rank) {
    if (never_ran(job)) return fail_never_ran(job, "log");
    if (!is_remote(job))
        return log_file(field_text(job, "output"), attempt, rank).map([](const fs::path& path) {
            return StoredFile(path);
        });
    protocol::JobFileArgs args{.id = job.value("id", std::uint64_t{0}),
                               .file = protocol::kLogFile,
                               .rank = static_cast<std::uint64_t>(rank)};
    if (attempt) args.attempt = static_cast<std::uint64_t>(*attempt);
    protocol::JobFileArgs look = args;
    look.bytes = 0;
    ROLL_TRY(const protocol::JobFileReply found, rolld_.ask(look));
    args.attempt = found.attempt;
    return StoredFile(rolld_, args, found.file);
}

StoredFile JobFiles::metrics(const Json& job) {
    fs::path path = fs::path(field_text(job, "output")) / "metrics.jsonl";
    if (!is_remote(job)) return StoredFile(std::move(path));
    const protocol::JobFileArgs args{.id = job.value("id", std::uint64_t{0}),
                                     .file = protocol::kMetricsFile};
    return {rolld_, args, std::move(path)};
}

// Returns the offset of the first byte that was not read yet.
//
// roll-worker may have removed whole blocks from the beginning of the log. The bytes that were read
// last (`seen_`) are then at a lower offset. This function searches for these bytes block by block.
// If the file does not contain these bytes, the file is new, and the result is 0.
std::uint64_t Tail::find_again(std::uint64_t size) const {
    constexpr std::uint64_t kBlock = 4096;
    for (std::uint64_t at = offset_;; at -= kBlock) {
        const bool inside = at <= size && at >= seen_.size();
        if (inside && file_.read(at - seen_.size(), seen_.size()) == seen_) return at;
        if (at < kBlock) break;
    }
    return 0;
}

std::vector<std::string> Tail::lines(std::uint64_t bytes_max) {
    constexpr std::size_t kSeen = 256;
    const std::uint64_t size = file_.size();
    if (size == 0) return {};
    const std::uint64_t offset = find_again(size);
    if (offset == 0) partial_.clear();
    offset_ = offset;
    std::string text = file_.read(offset_, std::min(bytes_max, size - offset_));
    offset_ += text.size();
    seen_ += text;
    seen_.erase(0, seen_.size() - std::min(kSeen, seen_.size()));
    text = partial_ + text;
    std::vector<std::string> lines;
    std::size_t from = 0;
    for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', from)) {
        lines.push_back(text.substr(from, end - from));
        from = end + 1;
    }
    partial_ = text.substr(from);
    return lines;
}

std::string Tail::rest() {
    std::string rest;
    rest.swap(partial_);
    return rest;
}

std::vector<Json> metric_rows(Tail& tail) {
    std::vector<Json> rows;
    for (const std::string& line : tail.lines()) {
        Json row = Json::parse(line, nullptr, false);
        if (row.is_object()) rows.push_back(std::move(row));
    }
    return rows;
}

}  // namespace roll::cli
