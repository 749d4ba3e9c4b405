// The model of `rollctl top`: the data read from rolld, and the user's choices of what to show.
// Both are plain values, so that the view and the handling of keys are pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/text/phases.hpp"
#include "cli/text/render.hpp"
#include "common/json.hpp"

namespace roll::cli::top {

// The newest metrics of a running job, oldest first.
struct Curve {
    std::vector<double> loss;
    std::vector<double> tokens_per_second;
    // GPU load in percent and memory of all nodes in bytes, sampled every two seconds
    std::vector<double> gpu_percent{};
    std::vector<double> memory{};
    friend bool operator==(const Curve&, const Curve&) = default;
};

// The job whose page or log is open.
struct OpenJob {
    Json job;                  // `job` of the reply to `show`; null until the reply has arrived
    Json head{};               // first row of metrics.jsonl; null until the job has written it
    std::vector<Point> loss;   // loss at each step of the whole run
    std::vector<Point> speed;  // tokens/s at each step of the whole run
    PhaseTimes phases{};       // time of each phase, summed over all steps of the run
};

// The last lines of the log that is followed.
struct OpenLog {
    std::string title;                // name of the file, or the reason why there is no file
    std::deque<std::string> lines{};  // lines without control characters
    std::uint64_t before = 0;         // number of lines that were read before the first of `lines`
};

struct Data {
    std::uint64_t running = 0;  // number of running jobs
    std::uint64_t queued = 0;   // number of queued jobs
    // Rows of the replies to `jobs`: running, then queued, then finished jobs. A long queue is cut
    // off.
    Json jobs = Json::array();
    Json nodes = Json::array();             // rows of the reply to `nodes`; may lack some nodes
    Json all = Json::object();              // totals of all nodes, from the reply to `nodes`
    Json allocations = Json::object();      // the reply to `alloc_list`
    std::map<std::uint64_t, Curve> curves;  // curves of the running jobs, by job id
    std::deque<std::string> events;         // newest events, one line each, newest last
    OpenJob open;
    OpenLog log;
    std::string trouble;        // reason why rolld does not answer; empty if rolld answers
    std::string answer;         // the result of the last change
    std::uint64_t answers = 0;  // number of results that have arrived in `answer` so far
};

enum class Page { Jobs, Nodes, Allocations };
inline constexpr std::array kPageNames = {"Jobs", "Nodes", "Allocations"};
enum class Sort { State, Id, Name, User, Time };
inline constexpr std::array kSortNames = {"state", "id", "name", "user", "time"};

// A question that the user must answer with y or n.
struct Confirm {
    std::string selector;  // selector of the jobs to cancel
    std::string what;      // text that names the jobs
};

// The user's choices, and the state of the screen.
struct Ui {
    Page page = Page::Jobs;
    std::optional<std::uint64_t> job{};  // the job whose page is open
    bool log = false;                    // show the job's log in place of its page
    int rank = 0;                        // rank whose log is shown
    bool help = false;
    bool finished = false;  // also list jobs that have ended
    bool expand = false;    // show one row for each task of an array
    std::string filter{};   // show only rows that contain this text
    bool typing = false;    // true: the keyboard edits the filter
    Sort sort = Sort::State;
    bool reversed = false;
    // The key of the selected row on each page. An index would select another row when rows are
    // added or removed.
    std::array<std::string, kPageNames.size()> selected{};
    std::size_t scroll = 0;  // first line of the job page or the help
    std::size_t shift = 0;   // first column of the log
    // first line of the log on the screen; nullopt: the end of the log is on the screen
    std::optional<std::uint64_t> log_top{};
    std::optional<Confirm> confirm{};
    std::string message{};           // text in the last line, shown until the next key
    std::uint64_t answers_seen = 0;  // value of Data::answers at the last key
};

// The size and the abilities of the screen.
struct Canvas {
    std::size_t width = 80;
    std::size_t height = 24;
    bool utf8 = true;
    Time now{};
    bool local = true;  // times are in the local zone
};

// The data that the reader must request. It depends only on the user's choices.
struct Wanted {
    Page page = Page::Jobs;
    std::optional<std::uint64_t> job{};
    bool log = false;
    int rank = 0;
    bool finished = false;
    bool expand = false;
    friend bool operator==(const Wanted&, const Wanted&) = default;
};
inline Wanted wanted_of(const Ui& ui) {
    return {ui.page, ui.job, ui.log, ui.rank, ui.finished, ui.expand};
}

}  // namespace roll::cli::top
