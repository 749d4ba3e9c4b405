// Names of a command's log files (`stdout`, `stderr`) with the specifiers of sbatch, such as
// "%x-%j-%r.log". A width between % and the letter pads a number with zeros: %4j is the job's id
// with at least 4 digits.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace roll::spec {

using LogNameValues = std::map<char, std::string>;

// Replaces each specifier whose letter is in `values`. If `last` is true, also replaces %% by %.
std::string expand_log_name(std::string_view name, const LogNameValues& values, bool last);

// Returns the first specifier that Roll does not know, such as "%z"; nullopt if Roll knows all
// specifiers.
std::optional<std::string> unknown_specifier(std::string_view name);
inline constexpr std::string_view kLogNameSpecifiers =
    "%% %A %a %J %j %N %n %r %s %t %u %x, with a width such as %4j";

// Returns whether the name contains a specifier whose letter is in `letters`.
bool has_specifier(std::string_view name, std::string_view letters);

}  // namespace roll::spec
