// Applies events of attempts, their members, checkpoints and exports.
#pragma once

#include "daemon/core/state/event.hpp"

namespace roll::core {

void on(State& s, const AttemptPlaced& e);
void on(State& s, const AttemptStarted& e);
void on(State& s, const AttemptStopping& e);
void on(State& s, const MemberEnded& e);
void on(State& s, const MemberUp& e);
void on(State& s, const AttemptFenced& e);
void on(State& s, const AttemptEnded& e);
void on(State& s, const CheckpointAsked& e);
void on(State& s, const TrainingAsked& e);
void on(State& s, const TrainingAnswered& e);
void on(State& s, const CheckpointRecorded& e);
void on(State& s, const CheckpointPruned& e);
void on(State& s, const ExportRecorded& e);

}  // namespace roll::core
