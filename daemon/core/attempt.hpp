// One try of a job, and what it leaves.
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

// How an attempt ended. Infra: lost worker, killed by a signal that we did not send, full disk.
// App: the program failed. Invalid: the input can never work. Yielded: stopped at a step boundary
// after a checkpoint, wants to go on. Stopped: ended because we asked.
enum class Outcome { Done, App, Infra, Invalid, Yielded, Stopped };

// Starting -> Running -> Stopping -> ended. Starting -> Stopping is legal.
enum class AttemptPhase { Starting, Running, Stopping };

// What an attempt holds of one worker. The order of an attempt's places is that of node ranks.
struct Place {
    WorkerId worker;
    std::vector<int> slots;  // indices, 0..Worker::slots-1
    std::vector<int> gpus;   // indices, 0..Worker::gpus-1
    bool up = false;         // its ranks have come up
    bool ended = false;      // this member has reported its end; a spare has nothing to end
    int gpu_percent = 100;   // of each of its GPUs
    bool spare = false;      // runs nothing: held to replace one that fails
    friend bool operator==(const Place&, const Place&) = default;
};

struct Attempt {
    Token token;
    AttemptPhase phase = AttemptPhase::Starting;
    std::vector<Place> places{};
    std::vector<std::string> nodes{};  // of the places: names outlive a lost worker
    int variant = 0;                   // of the job's resources: JobSpec::shape()
    Time placed_at{};
    std::optional<Time> started_at{};
    // The bad end of a member that the attempt is judged by, kept until every member has ended: the
    // first that came of itself, before those that we or a lost peer brought about.
    std::optional<Outcome> outcome{};
    std::string blamed{};     // the node of that member
    std::set<int> matched{};  // of retry.on_log, by any member
    int exit_code = 0;        // as a shell would show it: 128+n for signal n
    std::string reason{};
    bool preempted = false;   // stops because a job of higher priority wants its place
    std::uint64_t asked = 0;  // checkpoints that somebody asked it for
    std::uint64_t saved = 0;  // the newest of these that is recorded

    // What it holds of the worker; null: nothing.
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
    std::string blamed{};  // node
    friend bool operator==(const EndedAttempt&, const EndedAttempt&) = default;
};

// A checkpoint that counts: its directory lies under its final name and the ledger has it.
struct Checkpoint {
    std::int64_t step = 0;
    Token token;
    std::string directory;    // absolute
    std::uint64_t asked = 0;  // the request of its attempt that it answers; 0: none
    friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

}  // namespace roll::core
