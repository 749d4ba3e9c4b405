// Strong integer ids and the fencing token. Ids of different kinds cannot be compared or converted.
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

using JobId = Id<struct JobTag>;  // one submitted job: 1, 2, 3, ...
// One Slurm allocation; rolld chooses the id before it runs sbatch
using AllocationId = Id<struct AllocationTag>;
using WorkerId = Id<struct WorkerTag>;  // one incarnation of a roll-worker process

// The fencing token of an attempt. It consists of the incarnation of rolld that placed the attempt,
// and the attempt's number within the job (1, 2, ...). Every message, directory name and record
// about the attempt contains the token. Attempt numbers alone would not suffice, because they
// repeat after the ledger is restored from a backup. A later attempt of the job has a greater
// token.
struct Token {
    std::uint64_t incarnation = 0;
    std::uint64_t attempt = 0;
    friend auto operator<=>(const Token&, const Token&) = default;
};

// Formats a token as "3-1" (incarnation 3, attempt 1) for file names and messages.
std::string to_string(const Token& token);
std::optional<Token> parse_token(std::string_view text);

// Identifies one attempt of one job in the whole cluster.
struct AttemptKey {
    JobId job;
    Token token;
    friend auto operator<=>(const AttemptKey&, const AttemptKey&) = default;
};

}  // namespace roll
