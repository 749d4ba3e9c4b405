#include "common/log.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/rotating_file_sink.h>

#include "common/json.hpp"

namespace roll {
namespace {

std::string quote(const std::string& text) {
    return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

spdlog::sink_ptr log_file(const std::filesystem::path& path, std::size_t bytes_max) {
    constexpr std::size_t kEarlier = 2;
    return std::make_shared<spdlog::sinks::rotating_file_sink_mt>(path.string(), bytes_max,
                                                                  kEarlier);
}

Result<Log> Log::open(const std::filesystem::path& path, const std::string& program) {
    try {
        auto logger = std::make_shared<spdlog::logger>(program, log_file(path));
        // the program's name with each % doubled, because % starts a field in a pattern of spdlog
        std::string who;
        for (const char letter : quote(program))
            who += letter == '%' ? "%%" : std::string(1, letter);
        logger->set_formatter(std::make_unique<spdlog::pattern_formatter>(
            R"({"at":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","program":)" + who + R"(,"text":%v})",
            spdlog::pattern_time_type::utc));
        logger->flush_on(spdlog::level::info);
        return Log(std::move(logger));
    } catch (const spdlog::spdlog_ex& e) {
        return fail(ErrorCode::Refused, "cannot open log " + path.string() + ": " + e.what());
    }
}

void Log::write(spdlog::level::level_enum level, const std::string& text) const {
    logger_->log(level, "{}", quote(text));
}

}  // namespace roll
