// Applies events of jobs.
#pragma once

#include "daemon/core/state/event.hpp"

namespace roll::core {

void on(State& s, const JobSubmitted& e);
void on(State& s, const ExportQueued& e);
void on(State& s, const JobHeld& e);
void on(State& s, const JobClosed& e);
void on(State& s, const JobPriorityChanged& e);
void on(State& s, const JobCancelRequested& e);
void on(State& s, const JobRequeued& e);
void on(State& s, const JobBeginChanged& e);
void on(State& s, const JobDue& e);
void on(State& s, const JobEnded& e);

}  // namespace roll::core
