// A program's log file. Each line is a JSON object {"at", "level", "program", "text"}. Pure
// functions do not log. They return notes to the caller instead.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <spdlog/logger.h>

#include "common/error.hpp"

namespace roll {

// Rotates the file before it exceeds `bytes_max`: NAME.log becomes NAME.1.log, NAME.1.log becomes
// NAME.2.log, and the old NAME.2.log is deleted. Throws spdlog_ex if the file cannot be opened.
spdlog::sink_ptr log_file(const std::filesystem::path& path, std::size_t bytes_max = 64 << 20);

class Log {
  public:
    // Opens the log. `program` names the writer, e.g. "rolld" or "roll-worker@node-1". Fails with
    // Refused if the file cannot be opened.
    static Result<Log> open(const std::filesystem::path& path, const std::string& program);

    template <class... Args>
    void info(fmt::format_string<Args...> format, Args&&... args) const {
        write(spdlog::level::info, fmt::format(format, std::forward<Args>(args)...));
    }
    template <class... Args>
    void warn(fmt::format_string<Args...> format, Args&&... args) const {
        write(spdlog::level::warn, fmt::format(format, std::forward<Args>(args)...));
    }
    template <class... Args>
    void error(fmt::format_string<Args...> format, Args&&... args) const {
        write(spdlog::level::err, fmt::format(format, std::forward<Args>(args)...));
    }

  private:
    explicit Log(std::shared_ptr<spdlog::logger> logger) : logger_(std::move(logger)) {}
    void write(spdlog::level::level_enum level, const std::string& text) const;

    std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace roll
