// Requests to a running training, and their names on the wire and in the ledger. The ranks carry
// out a request between two steps, all at the same step. A request to save a checkpoint is not one
// of these kinds, because the answer to such a request is the checkpoint (protocol::SaveOrder).
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "common/enum_name.hpp"

namespace roll {

// Evaluate: measures the validation sets and the tasks now. StopAtEpoch: ends the training as if
// its last step were the last step of this epoch. StopAtStep: ends the training as if its last step
// were step `value`. LogEvery: writes a line of the log and a row of the metrics at every step that
// `value` divides. Profile: writes the phases of the next `value` steps of all ranks as a Chrome
// trace.
enum class RequestKind { Evaluate, StopAtEpoch, StopAtStep, LogEvery, Profile };

// Names of the kinds, in the order of RequestKind.
inline constexpr std::array kRequestKinds = {"evaluate", "stop-at-epoch", "stop-at-step",
                                             "log-every", "profile"};

constexpr const char* name_of(RequestKind kind) { return name_in(kRequestKinds, kind); }

struct TrainingRequest {
    std::uint64_t number = 0;  // number of the request within the attempt, from 1
    RequestKind kind = RequestKind::Evaluate;
    std::int64_t value = 0;  // a step or a number of steps; 0 if the kind has no value
    friend bool operator==(const TrainingRequest&, const TrainingRequest&) = default;
};

struct RequestAnswer {
    std::uint64_t number = 0;    // number of the request
    std::int64_t step = 0;       // number of completed steps when the request was carried out
    std::int64_t stop_step = 0;  // step at which the training ends from now on; 0: as before
    std::string text{};          // one sentence for people
    friend bool operator==(const RequestAnswer&, const RequestAnswer&) = default;
};

// Returns the largest value that a request of this kind may have; the smallest is always 1. Returns
// 0 if requests of this kind have no value.
constexpr std::int64_t value_most(RequestKind kind) {
    switch (kind) {
        case RequestKind::StopAtStep: return std::int64_t{1} << 50;
        case RequestKind::LogEvery: return 1'000'000;
        case RequestKind::Profile: return 100;
        default: return 0;
    }
}

}  // namespace roll
