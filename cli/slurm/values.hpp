// Reads values in the forms that Slurm's commands accept.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/time.hpp"

namespace roll::cli {

// Splits at each separator; "a,,b" has three parts.
std::vector<std::string> split_at(std::string_view text, char separator);

// Returns a number without sign; nullopt if the text is anything else or the number is too large
// for an int.
std::optional<int> slurm_number(std::string_view text);
// Like slurm_number(), but a suffix k or m multiplies by 1024 or 1024 x 1024.
std::optional<int> slurm_count(std::string_view text);

// Returns a size in MiB: a whole number with a suffix K, M (default), G or T, which may have a B
// after it. Kibibytes are rounded up.
std::optional<std::int64_t> slurm_mebibytes(std::string_view text);

// Returns a time limit: "M", "M:S", "H:M:S", "D-H", "D-H:M" or "D-H:M:S", rounded up to minutes as
// Slurm does. 0 means no limit, as do "-1", "UNLIMITED" and "INFINITE".
std::optional<std::chrono::seconds> slurm_duration(const std::string& text);

// Returns a point in time, in the local time zone: "now+1hour", "tomorrow", "16:00",
// "2026-11-26T08:00", "11/26", ... A time of day that has passed is tomorrow's.
std::optional<Time> slurm_instant(const std::string& text, Time now);

// Formats a duration as squeue does: "5:00", "1:00:00", "2-00:00:00".
std::string slurm_duration_text(std::chrono::seconds duration);

// A value of --signal, such as "B:USR1@60".
struct SlurmSignal {
    bool batch = false;  // send it to the batch script, not to the tasks of srun
    int number = 0;
    int seconds = 60;  // before the time limit
};
std::optional<SlurmSignal> slurm_signal(std::string_view text);

}  // namespace roll::cli
