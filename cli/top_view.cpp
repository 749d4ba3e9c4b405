#include "cli/top_view.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "cli/job_view.hpp"
#include "cli/render.hpp"

namespace roll::cli {
namespace {

constexpr std::size_t kSpark = 16;
constexpr std::size_t kNodesShown = 8;
constexpr std::size_t kEventsLeast = 4;  // lines kept for events where there are many jobs

// The first `width` characters of UTF-8 text.
std::string cut(const std::string& text, std::size_t width) {
    std::size_t characters = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
        if (begins && ++characters > width) return text.substr(0, i);
    }
    return text;
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    for (std::size_t from = 0; from < text.size();) {
        const std::size_t end = std::min(text.find('\n', from), text.size());
        lines.push_back(text.substr(from, end - from));
        from = end + 1;
    }
    return lines;
}

std::string summary(const TopData& data, Time now) {
    std::map<std::string, int> states;
    for (const Json& job : data.jobs) ++states[field_text(job, "state")];
    std::int64_t slots = 0;
    std::int64_t slots_free = 0;
    std::int64_t gpus = 0;
    std::int64_t gpus_free = 0;
    for (const Json& node : data.nodes) {
        slots += node.value("slots", std::int64_t{0});
        slots_free += node.value("slots_free", std::int64_t{0});
        gpus += node.value("gpus", std::int64_t{0});
        gpus_free += node.value("gpus_free", std::int64_t{0});
    }
    std::string text =
        fmt::format("{} running  {} queued  {} nodes  slots {}/{} busy", states["running"],
                    states["queued"], data.nodes.size(), slots - slots_free, slots);
    if (gpus > 0) text += fmt::format("  GPUs {}/{} busy", gpus - gpus_free, gpus);
    return text + "  " + to_iso8601(now).substr(0, 19) + "Z";
}

std::string job_line(const Json& job, const TopData& data, Time now) {
    const auto curve = data.curves.find(job.value("id", std::uint64_t{0}));
    std::string sparks;
    if (curve != data.curves.end()) {
        const std::string loss = sparkline(curve->second.loss, kSpark);
        const std::string speed = sparkline(curve->second.tokens_per_second, kSpark);
        if (!loss.empty()) sparks += "  loss " + loss;
        if (!speed.empty()) sparks += "  tokens/s " + speed;
    }
    const bool queued = field_text(job, "state") == "queued";
    const auto since = parse_time(job.value(queued ? "submitted_at" : "started_at", Json()));
    const std::string took =
        since ? duration_text(std::chrono::duration<double>(now - *since).count()) : "";
    return fmt::format("{:>6}  {:<20} {:<10} {:<8} {:>8}  {}{}", field_text(job, "id"),
                       field_text(job, "name").substr(0, 20), field_text(job, "user").substr(0, 10),
                       field_text(job, "state"), took,
                       queued ? field_text(job, "waiting") : progress_text(job), sparks);
}

}  // namespace

std::string sparkline(const std::vector<double>& values, std::size_t width) {
    constexpr std::array kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    const std::size_t count = std::min(width, values.size());
    const auto first = values.end() - static_cast<std::ptrdiff_t>(count);
    if (count == 0) return "";
    const auto [low, high] = std::minmax_element(first, values.end());
    const double range = *high > *low ? *high - *low : 1;
    std::string text;
    for (auto value = first; value != values.end(); ++value)
        text += kBlocks[static_cast<std::size_t>((*value - *low) / range * 7.999)];
    return text;
}

std::vector<std::string> top_lines(const TopData& data, std::size_t width, std::size_t height,
                                   Time now) {
    std::vector<std::string> lines = {summary(data, now), ""};
    std::vector<std::string> nodes = lines_of(nodes_text(data.nodes));
    if (nodes.size() > kNodesShown + 1) {
        const std::size_t more = nodes.size() - kNodesShown - 1;
        nodes.resize(kNodesShown + 1);
        nodes.push_back(fmt::format("and {} more: rollctl nodes", more));
    }
    lines.insert(lines.end(), nodes.begin(), nodes.end());
    lines.insert(lines.end(), {"", "    ID  NAME                 USER       STATE        TIME  "});
    std::vector<Json> jobs(data.jobs.begin(), data.jobs.end());
    std::ranges::stable_partition(
        jobs, [](const Json& job) { return field_text(job, "state") == "running"; });
    const std::size_t kept = lines.size() + kEventsLeast + 1;
    std::size_t room = height > kept ? height - kept : 0;
    if (jobs.size() > room && room > 0) --room;  // for the line that says so
    for (std::size_t i = 0; i < std::min(room, jobs.size()); ++i)
        lines.push_back(job_line(jobs[i], data, now));
    if (jobs.size() > room)
        lines.push_back(fmt::format("and {} more: rollctl jobs", jobs.size() - room));
    lines.emplace_back();
    const std::size_t left = height > lines.size() ? height - lines.size() : 0;
    const std::size_t shown = std::min(left, data.events.size());
    lines.insert(lines.end(), data.events.end() - static_cast<std::ptrdiff_t>(shown),
                 data.events.end());
    if (lines.size() > height) lines.resize(height);
    for (std::string& line : lines) line = cut(line, width);
    return lines;
}

}  // namespace roll::cli
