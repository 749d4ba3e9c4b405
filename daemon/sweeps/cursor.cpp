#include "daemon/sweeps/cursor.hpp"

#include <algorithm>
#include <limits>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/io/descriptor.hpp"
#include "common/json.hpp"

namespace roll::sweeps {
namespace {

constexpr std::size_t kBytesMax = 4u << 20;
constexpr std::size_t kLineMax = 1u << 20;  // a longer line is not a row of metrics

// Returns the value of the metric; nullopt if the row does not have the metric. Returns NaN if the
// value is not a number, because the trainer writes null or a text for a value that is not finite.
std::optional<double> value_of(const Json& row, const std::string& metric) {
    const auto found = row.find(metric);
    if (found == row.end()) return std::nullopt;
    return found->is_number() ? found->get<double>() : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

Cursor::Cursor(std::filesystem::path file, std::string metric, std::vector<std::int64_t> rungs)
    : file_(std::move(file)),
      metric_(std::move(metric)),
      rungs_(std::move(rungs)),
      values_(rungs_.size()) {}

bool Cursor::read_on() {
    const io::Descriptor file(::open(file_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return true;
    if (static_cast<std::uint64_t>(status.st_size) < offset_) {
        offset_ = 0;  // a new attempt has rewritten the file
        partial_.clear();
    }
    const std::uint64_t left = static_cast<std::uint64_t>(status.st_size) - offset_;
    if (left == 0) return true;
    std::string text(std::min<std::uint64_t>(left, kBytesMax), '\0');
    const ssize_t got = ::pread(file.get(), text.data(), text.size(), static_cast<off_t>(offset_));
    if (got <= 0) return true;
    text.resize(static_cast<std::size_t>(got));
    offset_ += text.size();
    const bool whole = text.size() < kBytesMax;
    partial_ += text;
    std::string_view rest = partial_;
    for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
        take_line(rest.substr(0, end));
        rest.remove_prefix(end + 1);
    }
    partial_ = rest.size() > kLineMax ? std::string() : std::string(rest);
    return whole;
}

void Cursor::take_line(std::string_view line) {
    const Json row = Json::parse(line, nullptr, false);
    if (!row.is_object()) return;
    const Json step = row.value("step", Json());
    if (holds<std::int64_t>(step)) take(step.get<std::int64_t>(), value_of(row, metric_));
}

void Cursor::take(std::int64_t step, std::optional<double> value) {
    while (next_ < rungs_.size()) {
        const bool at = step == rungs_[next_] && value;
        if (step < rungs_[next_] || (step == rungs_[next_] && !value)) break;
        values_[next_] = at || !newest_ ? value : newest_;
        // If the rung has no value yet, stay at this rung: it gets the first later value.
        if (!values_[next_]) return;
        ++next_;
    }
    if (value) newest_ = value;
}

}  // namespace roll::sweeps
