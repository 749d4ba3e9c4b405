#include "daemon/http/trial_files.hpp"

#include <string_view>

namespace roll::http {
namespace {

constexpr int kPartsMax = 64;  // maximum number of parts per call; a part has up to 256 KiB

// Takes the complete lines of `text`. Returns the number of bytes taken.
std::size_t take_lines(std::string_view text, const std::string& metric, bool maximize,
                       TrialMetric& seen) {
    std::size_t begin = 0;
    for (std::size_t end = text.find('\n'); end != std::string_view::npos;
         end = text.find('\n', begin)) {
        seen.add(Json::parse(text.substr(begin, end - begin), nullptr, false), metric, maximize);
        begin = end + 1;
    }
    return begin;
}

}  // namespace

// Returns whether `part` continues the earlier parts of the same file. Returns false in three
// cases: another file now has the name (the inode differs), the file became shorter, or the file
// was written without a change of its size.
bool TrialFiles::continues(const Json& part, const Position& position) {
    if (part.value("from", std::uint64_t{0}) != position.next) return false;
    if (position.next == 0) return true;
    return part.value("inode", std::uint64_t{0}) == position.inode &&
           (part.value("size", std::uint64_t{0}) != position.size ||
            part.value("written", std::int64_t{0}) == position.written);
}

void TrialFiles::note(const Json& part, Position& position) {
    position.inode = part.value("inode", std::uint64_t{0});
    position.size = part.value("size", std::uint64_t{0});
    position.written = part.value("written", std::int64_t{0});
}

TrialMetric TrialFiles::read(const std::string& output, const std::string& metric, bool maximize,
                             const ReadPart& read_part) {
    const std::lock_guard lock(mutex_);
    if (files_.size() >= kFilesMax) files_.clear();
    Position& position = files_[{output, metric, maximize}];
    for (int part = 0; part < kPartsMax; ++part) {
        const auto read = read_part(output, position.next);
        if (!read) break;
        if (!continues(*read, position)) {
            const bool again = position.next > 0;
            position = {};
            if (again) continue;
            break;
        }
        note(*read, position);
        const std::string text = read->value("text", "");
        const bool is_end = position.next + text.size() >= read->value("size", std::uint64_t{0});
        const std::size_t taken = take_lines(text, metric, maximize, position.seen);
        position.next += taken;
        if (taken == 0 || is_end) break;
    }
    return position.seen;
}

}  // namespace roll::http
