#include "cli/files_of_job.hpp"

#include <charconv>
#include <fstream>

#include <fmt/format.h>

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

Result<fs::path> log_file(const fs::path& output, std::optional<int> attempt, int rank) {
    const auto attempts = attempts_with_logs(output / "logs");
    if (attempts.empty()) {
        return fail(ErrorCode::NotFound,
                    fmt::format("there is no log in {}/logs yet", output.string()));
    }
    const int number = attempt.value_or(*std::max_element(attempts.begin(), attempts.end()));
    const fs::path file =
        output / "logs" / fmt::format("attempt-{}", number) / fmt::format("rank-{}.log", rank);
    std::error_code error;
    if (!fs::exists(file, error)) {
        return fail(ErrorCode::NotFound, fmt::format("there is no log {}", file.string()),
                    "ls " + (output / "logs").string());
    }
    return file;
}

std::vector<std::string> Tail::lines() {
    std::error_code error;
    const auto size = fs::file_size(file_, error);
    if (error) return {};
    if (size < offset_) {
        offset_ = size;
        partial_.clear();
    }
    std::ifstream in(file_, std::ios::binary);
    in.seekg(static_cast<std::streamoff>(offset_));
    std::string text(size - offset_, '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
    offset_ += text.size();
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

}  // namespace roll::cli
