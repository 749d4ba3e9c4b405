// Strong integer ids and the fencing token. Two ids of different kinds never compare, convert or
// mix.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace roll {

template <class Tag>
struct Id {
    std::uint64_t value = 0;
    friend auto operator<=>(Id, Id) = default;
};

using JobId = Id<struct JobTag>;                // one submitted job: 1, 2, 3, ...
using AllocationId = Id<struct AllocationTag>;  // one Slurm allocation, named by us before sbatch
using WorkerId = Id<struct WorkerTag>;          // one incarnation of a roll-worker process

// The fencing token of an attempt: the incarnation of rolld that placed it, and the attempt's
// number within its job (1, 2, ...). It is in every message, directory name and record about the
// attempt: attempt numbers alone repeat after a ledger was restored from a backup. Later placements
// compare greater.
struct Token {
    std::uint64_t incarnation = 0;
    std::uint64_t attempt = 0;
    friend auto operator<=>(const Token&, const Token&) = default;
};

// "3-1": incarnation 3, attempt 1. The form in file names and messages.
std::string to_string(const Token& token);
std::optional<Token> parse_token(std::string_view text);

// What names one launch of one job, cluster-wide.
struct AttemptKey {
    JobId job;
    Token token;
    friend auto operator<=>(const AttemptKey&, const AttemptKey&) = default;
};

}  // namespace roll
