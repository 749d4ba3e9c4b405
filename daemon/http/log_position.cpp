#include "daemon/http/log_position.hpp"

#include <utility>

#include <fmt/format.h>

#include "daemon/files/job_file.hpp"

namespace roll::http {

bool is_log(std::string_view target) {
    return target.substr(0, target.find('?')).ends_with("/log");
}

std::string LogPosition::next_target() const {
    if (!next_) return target_;
    return fmt::format("{}{}from={}", target_, target_.find('?') == std::string::npos ? '?' : '&',
                       *next_);
}

bool LogPosition::take(const Json& answer) {
    if (!answer.is_object() || !answer.contains("next")) return true;
    const auto attempt = answer.value("attempt", std::uint64_t{0});
    const auto next = answer.at("next").get<std::uint64_t>();
    const auto sent = std::exchange(next_, next);
    const bool is_same_file = std::exchange(attempt_, attempt) == attempt;
    if (!sent) return false;
    if (!is_same_file) {
        next_ = 0;
        return false;
    }
    // If the log grows faster than it is sent, leave out text.
    const auto size = answer.value("size", next);
    if (size > next + 2 * files::kPieceBytesMax) next_ = size - files::kPieceBytesMax;
    return next != *sent;
}

}  // namespace roll::http
