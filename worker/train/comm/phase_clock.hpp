// Divides the wall time of a rank into the phases of its steps. At each moment, exactly one phase
// runs, so the sum of the phases is the elapsed time.
//
// The times are measured on the host. A GPU executes work after the host has issued it. On a GPU,
// the time of a phase is therefore the time for which the host issues the work of the phase, or
// waits for this work.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace roll::train {

// Tp, Cp, Pp, Dp: waiting for a transfer between tensor-parallel ranks (Tp), context-parallel ranks
// (Cp), pipeline stages (Pp) or replicas (Dp). Bubble: waiting for an activation or a gradient from
// another stage. Agreement: waiting for all ranks at the end of a step, when they gather its loss.
// Save: the time for which a checkpoint stops training.
enum class Phase : std::uint8_t {
    Data,
    Forward,
    Backward,
    Optimizer,
    Tp,
    Cp,
    Pp,
    Dp,
    Bubble,
    Agreement,
    Save,
    Other,
    Outside,  // not part of a step: validation, samples
};
inline constexpr std::array kPhaseNames = {"data",   "forward",   "backward", "optimizer",
                                           "tp",     "cp",        "pp",       "dp",
                                           "bubble", "agreement", "save",     "other"};
// number of reported phases: all phases except Outside
inline constexpr std::size_t kPhases = kPhaseNames.size();

class PhaseClock {
  public:
    using Clock = std::chrono::steady_clock;
    struct Span {
        Phase phase = Phase::Outside;
        Clock::time_point begin{}, end{};
    };
    using Times = std::array<double, kPhases>;  // seconds in each Phase

    // Starts `phase`. Returns the phase that ends.
    Phase enter(Phase phase) {
        const auto now = Clock::now();
        times_[static_cast<std::size_t>(current_)] +=
            std::chrono::duration<double>(now - since_).count();
        if (records_ && spans_.size() < kSpansMost) spans_.push_back({current_, since_, now});
        since_ = now;
        return std::exchange(current_, phase);
    }

    // Like enter(), for a phase in which the thread waits. During Phase::Agreement, Phase::Save and
    // Phase::Outside, the wait counts as that phase.
    Phase enter_wait(Phase phase) {
        const bool is_whole =
            current_ == Phase::Agreement || current_ == Phase::Save || current_ == Phase::Outside;
        return enter(is_whole ? current_ : phase);
    }

    // Returns the times since the last call, and sets the times to 0.
    Times take() {
        enter(current_);
        Times taken;
        std::copy_n(times_.begin(), kPhases, taken.begin());
        times_ = {};
        return taken;
    }

    // Starts to record each phase that ends, up to kSpansMost of them.
    void record() {
        enter(current_);
        records_ = true;
    }
    // Ends the recording. Returns the recorded phases in order of time.
    std::vector<Span> take_spans() {
        enter(current_);
        records_ = false;
        return std::exchange(spans_, {});
    }

  private:
    static constexpr std::size_t kSpansMost = 200'000;

    std::array<double, kPhases + 1> times_{};
    Phase current_ = Phase::Outside;
    Clock::time_point since_ = Clock::now();
    bool records_ = false;
    std::vector<Span> spans_;
};

// Starts a phase. At the end of the scope, the previous phase continues.
class PhaseScope {
  public:
    PhaseScope(PhaseClock& clock, Phase phase) : clock_(clock), before_(clock.enter(phase)) {}
    ~PhaseScope() { clock_.enter(before_); }
    PhaseScope(const PhaseScope&) = delete;
    PhaseScope& operator=(const PhaseScope&) = delete;

  private:
    PhaseClock& clock_;
    Phase before_;
};

}  // namespace roll::train
