// Parses values in the formats that Slurm's commands accept.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/split.hpp"
#include "common/time.hpp"

namespace roll::cli {

// Parses a number without a sign. Returns nullopt if the text is not such a number, or if the
// number is too large for an int.
std::optional<int> slurm_number(std::string_view text);
// Like slurm_number(), but a suffix k or m multiplies by 1024 or 1024 x 1024.
std::optional<int> slurm_count(std::string_view text);
// Parses a generic resource, NAME, NAME:N, NAME:TYPE or NAME:TYPE:N, which sockets "(S:0-1)" may
// follow, and returns its number. The second of two words is a type if it begins with a letter.
std::optional<int> slurm_gres(std::string_view name, std::string_view text);

// Parses a size and returns it in MiB. The text is a whole number with a suffix K, M (default), G
// or T, which may be followed by B. Kibibytes are rounded up to MiB.
std::optional<std::int64_t> slurm_mebibytes(std::string_view text);

// Parses a time limit: "M", "M:S", "H:M:S", "D-H", "D-H:M" or "D-H:M:S". Rounds the limit up to
// minutes, as Slurm does. "0", "-1", "UNLIMITED" and "INFINITE" give 0, which means no limit.
std::optional<std::chrono::seconds> slurm_duration(const std::string& text);

// Parses a point in time in the local time zone: "now+1hour", "tomorrow", "16:00",
// "2026-11-26T08:00", "11/26", ... If a time of day has already passed, returns the same time of
// the next day.
std::optional<Time> slurm_instant(const std::string& text, Time now);

// Formats a duration as squeue does: "5:00", "1:00:00", "2-00:00:00".
std::string slurm_duration_text(std::chrono::seconds duration);

// A value of --signal, such as "B:USR1@60".
struct SlurmSignal {
    bool batch = false;  // send the signal to the batch script, not to the tasks of srun
    int number = 0;
    int seconds = 60;  // seconds before the time limit at which the signal is sent
};
std::optional<SlurmSignal> slurm_signal(std::string_view text);

}  // namespace roll::cli
