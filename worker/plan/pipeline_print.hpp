// Prints a simulated pipeline schedule as a table for a terminal, as an SVG drawing, or as a Chrome
// trace. Pure.
#pragma once

#include <string>

#include "worker/plan/pipeline_check.hpp"

namespace roll::plan {

// Returns a table with one line per rank. The unit of time is the length of the shortest op, and
// each unit is as wide as the longest label. Lines have at most `width` columns; a longer step
// continues on further lines below. The table leaves out the middle of a very long step, and ops
// that take almost no time.
std::string table_text(const PipelineSchedule& schedule, const ScheduleReport& report,
                       std::size_t width = 80);

// Returns an SVG drawing with one row per rank and one box per op. The drawing's width grows with
// the number of ops.
std::string svg_text(const PipelineSchedule& schedule, const ScheduleReport& report,
                     const std::string& title);

// Returns the schedule in the Trace Event format that chrome://tracing and Perfetto read. One unit
// of the simulation is shown as one millisecond.
std::string trace_text(const PipelineSchedule& schedule, const ScheduleReport& report);

}  // namespace roll::plan
