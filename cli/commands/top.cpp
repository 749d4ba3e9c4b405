// `rollctl top`: draws the lines of cli/top_view with ncurses.
#include <clocale>

#include <ncurses.h>

#include "cli/commands/commands.hpp"
#include "cli/daemon.hpp"
#include "cli/files_of_job.hpp"
#include "cli/job_view.hpp"
#include "cli/render.hpp"
#include "cli/top_view.hpp"

namespace roll::cli {
namespace {

constexpr int kWaitMs = 500;  // longest wait for an event; then keyboard and progress are read
constexpr int kEventsRead = 1000;
constexpr int kJobsRead = 100;  // maximum number of running jobs, and of queued jobs, that are read
constexpr std::size_t kEventsKept = 100;
constexpr std::size_t kPlainHeight = 60;
constexpr std::size_t kPlainWidth = 160;

struct Screen {
    Screen() {
        std::setlocale(LC_ALL, "");
        initscr();
        cbreak();
        noecho();
        curs_set(0);
        timeout(0);
    }
    ~Screen() { endwin(); }
    Screen(const Screen&) = delete;
    Screen& operator=(const Screen&) = delete;
};

void draw(const TopData& data) {
    erase();
    const auto height = static_cast<std::size_t>(getmaxy(stdscr));
    const auto width = static_cast<std::size_t>(getmaxx(stdscr));
    const auto lines = top_lines(data, width, height, wall_clock_now());
    for (std::size_t row = 0; row < lines.size(); ++row)
        mvaddstr(static_cast<int>(row), 0, lines[row].c_str());
    refresh();
}

constexpr std::size_t kClock = 11;  // offset of the time of day in "2026-11-22T14:31:15Z"

class Watch {
  public:
    // `nodes` is the maximum number of nodes to read from rolld; 0: all nodes.
    Watch(Daemon& daemon, int nodes) : daemon_(daemon), nodes_(nodes) {}
    const TopData& data() const { return data_; }

    // Waits up to `wait_ms` for new events, then refreshes all data.
    Result<void> look(int wait_ms) {
        ROLL_TRY_VOID(read_events(wait_ms));
        data_.jobs = Json::array();
        for (const char* state : {"running", "queued"}) {
            const Json args = {{"state", state}, {"limit", kJobsRead}};
            ROLL_TRY(const Json reply, daemon_.ask_patiently("jobs", args, kPatience));
            data_.running = reply.value("running", std::uint64_t{0});
            data_.queued = reply.value("queued", std::uint64_t{0});
            for (const Json& job : reply.value("jobs", Json::array())) data_.jobs.push_back(job);
        }
        const Json limit = nodes_ > 0 ? Json{{"limit", nodes_}} : Json::object();
        ROLL_TRY(const Json nodes, daemon_.ask_patiently("nodes", limit, kPatience));
        data_.nodes = nodes.value("nodes", Json::array());
        data_.all = nodes.value("all", Json::object());
        for (const Json& job : data_.jobs) read_metrics(job);
        const auto now = std::chrono::steady_clock::now();
        if (now < gpus_due_) return {};
        gpus_due_ = now + kGpuLooks;
        for (const Json& job : data_.jobs) {
            const Json progress = job.value("progress", Json());
            const Json use = progress.is_object() ? progress.value("gpu_percent", Json()) : Json();
            if (use.is_number())
                data_.curves[job.value("id", std::uint64_t{0})].gpu_percent.push_back(
                    use.get<double>());
        }
        return {};
    }

  private:
    static constexpr auto kPatience = std::chrono::seconds(60);
    // Time between two readings of GPU use. A roll-worker measures GPU use at the same interval.
    static constexpr auto kGpuLooks = std::chrono::seconds(2);

    // Reads the newest events on the first call, and all later events on later calls. Waits up to
    // `wait_ms` for an event.
    Result<void> read_events(int wait_ms) {
        for (bool more = true; more;) {
            Json args = {{"since", seen_}, {"limit", kEventsRead}, {"wait_ms", wait_ms}};
            if (seen_ == 0) args["newest"] = kEventsKept;
            ROLL_TRY(const Json reply, daemon_.ask_patiently("events", args, kPatience));
            const Json events = reply.value("events", Json::array());
            for (const Json& event : events) {
                std::string line = event_text(event);
                line.pop_back();
                // Keep only the time of day in the line.
                line.erase(kClock + 8, 1).erase(0, kClock);
                data_.events.push_back(std::move(line));
                if (data_.events.size() > kEventsKept) data_.events.pop_front();
            }
            seen_ = reply.value("next", seen_);
            more = !events.empty();
            wait_ms = 0;
        }
        return {};
    }

    void read_metrics(const Json& job) {
        if (field_text(job, "state") != "running") return;
        const auto id = job.value("id", std::uint64_t{0});
        const auto file = std::filesystem::path(field_text(job, "output")) / "metrics.jsonl";
        Tail& tail = tails_.try_emplace(id, file).first->second;
        Curve& curve = data_.curves[id];
        for (const std::string& line : tail.lines()) {
            const Json row = Json::parse(line, nullptr, false);
            const auto put = [&](const char* key, std::vector<double>& values) {
                if (row.is_object() && row.value(key, Json()).is_number())
                    values.push_back(row[key].get<double>());
            };
            put("loss", curve.loss);
            put("tokens_per_second", curve.tokens_per_second);
        }
    }

    Daemon& daemon_;
    int nodes_;
    TopData data_;
    std::int64_t seen_ = 0;
    std::map<std::uint64_t, Tail> tails_;
    std::chrono::steady_clock::time_point gpus_due_{};
};

}  // namespace

Result<int> run_top(const Context& context) {
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    Watch watch(daemon, context.json ? 0 : kNodesShown);
    ROLL_TRY_VOID(watch.look(0));
    if (context.json) {
        print_json(
            {{"schema", "roll.top/1"}, {"jobs", watch.data().jobs}, {"nodes", watch.data().nodes}});
        return 0;
    }
    if (!context.terminal) {  // stdout is not a terminal: print the view once
        for (const std::string& line :
             top_lines(watch.data(), kPlainWidth, kPlainHeight, wall_clock_now()))
            print(line + "\n");
        return 0;
    }
    const Screen screen;
    for (;;) {
        draw(watch.data());
        for (int key = getch(); key != ERR; key = getch()) {
            if (key == 'q' || key == 'Q') return 0;
        }
        ROLL_TRY_VOID(watch.look(kWaitMs));
    }
}

}  // namespace roll::cli
