// One attempt of a job, and its results.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/ids.hpp"
#include "common/time.hpp"

namespace roll::core {

// Outcome of an attempt. Infra: lost worker, killed by a signal that Roll did not send, full
// disk. App: the program failed. Invalid: the input can never work. Yielded: stopped at a step
// boundary after a checkpoint and wants to continue. Stopped: ended on request.
enum class Outcome { Done, App, Infra, Invalid, Yielded, Stopped };

// Starting -> Running -> Stopping -> ended. Starting -> Stopping is legal.
enum class AttemptPhase { Starting, Running, Stopping };

// The resources of one worker that an attempt holds. An attempt's places are in the order of node
// ranks.
struct Place {
    WorkerId worker;
    std::vector<int> slots;  // slot indices, 0..Worker::slots-1
    std::vector<int> gpus;   // GPU indices, 0..Worker::gpus-1
    bool up = false;         // its ranks have started
    bool ended = false;      // this member has reported its end; never set for a spare
    int gpu_percent = 100;   // share of each GPU
    bool spare = false;      // runs nothing; held to replace a failing node
    friend bool operator==(const Place&, const Place&) = default;
};

struct Attempt {
    Token token;
    AttemptPhase phase = AttemptPhase::Starting;
    std::vector<Place> places{};
    std::vector<std::string> nodes{};  // node names of the places, kept after a worker is lost
    int variant = 0;                   // index of the job's resource variant, see JobSpec::shape()
    Time placed_at{};
    std::optional<Time> started_at{};
    // The failure that decides the attempt's outcome, kept until every member has ended: the
    // first member that failed by itself takes precedence over members stopped by rolld or by a
    // lost peer.
    std::optional<Outcome> outcome{};
    std::string blamed{};     // node of the member whose failure decides
    std::set<int> matched{};  // retry.on_log patterns matched by any member
    int exit_code = 0;        // as in a shell: 128+n for signal n
    std::string reason{};
    bool preempted = false;   // stopping because a job of higher priority needs its place
    std::uint64_t asked = 0;  // number of the newest requested checkpoint
    std::uint64_t saved = 0;  // number of the newest requested checkpoint that is recorded

    // Returns the resources held on the worker; nullptr if none.
    const Place* place_on(WorkerId worker) const {
        const auto place = std::ranges::find(places, worker, &Place::worker);
        return place == places.end() ? nullptr : &*place;
    }
    friend bool operator==(const Attempt&, const Attempt&) = default;
};

struct EndedAttempt {
    Token token;
    std::vector<std::string> nodes{};
    Time placed_at{};
    std::optional<Time> started_at{};
    Time ended_at{};
    Outcome outcome = Outcome::Done;
    int exit_code = 0;
    std::string reason{};
    std::string blamed{};  // node that decided the outcome
    friend bool operator==(const EndedAttempt&, const EndedAttempt&) = default;
};

// A valid checkpoint: its directory has its final name and the ledger has recorded it.
struct Checkpoint {
    std::int64_t step = 0;
    Token token;
    std::string directory;    // absolute path
    std::uint64_t asked = 0;  // number of the attempt's request that it answers; 0: none
    friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

}  // namespace roll::core
