#include "worker/train/metrics.hpp"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/protocol/rank.hpp"
#include "worker/train/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

std::string line_of(const OrderedJson& row) {
    return row.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + '\n';
}

// The whole lines of at most `step`; a torn or foreign one is left out.
std::string cut(const std::string& text, std::int64_t step) {
    std::string kept;
    std::size_t begin = 0;
    for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
        const std::string line = text.substr(begin, end - begin + 1);
        const auto row = parse_json(line);
        if (!row || !row->is_object()) continue;
        const bool head = row->contains("schema");
        const auto at = row->find("step");
        const bool early = at != row->end() && at->is_number() && at->get<std::int64_t>() <= step;
        if (head || early) kept += line;
    }
    return kept;
}

std::string earlier_text(const fs::path& file, const fs::path& earlier) {
    if (auto text = read_file(file)) return *text;
    if (earlier.empty()) return "";
    return read_file(earlier).value_or("");
}

}  // namespace

Metrics::Metrics(const fs::path& file, const fs::path& earlier, std::int64_t step,
                 const OrderedJson& head)
    : path_(file) {
    std::string kept = step > 0 ? cut(earlier_text(file, earlier), step) : "";
    if (kept.empty()) kept = line_of(head);
    need(make_directories(file.parent_path()));
    need(write_file_atomically(file, kept));
    file_ = io::Descriptor(::open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    if (!file_) throw RankFailure(1, "cannot open " + file.string());
}

void Metrics::append(const OrderedJson& row) {
    const std::string line = line_of(row);
    errno = ENOSPC;  // what a short write means
    if (::write(file_.get(), line.data(), line.size()) == std::ssize(line)) return;
    const int number = errno;
    const bool full = number == ENOSPC || number == EDQUOT;
    throw RankFailure(
        full ? protocol::kExitRefused : 1,
        "cannot write " + path_.string() + ": " + std::generic_category().message(number));
}

void Metrics::sync() { ::fdatasync(file_.get()); }

}  // namespace roll::train
