#include "cli/top_view.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "cli/job_view.hpp"
#include "cli/render.hpp"

namespace roll::cli {
namespace {

constexpr std::size_t kSpark = 16;
// Minimum number of lines for events, however many jobs there are.
constexpr std::size_t kEventsLeast = 4;

// Returns the first `width` characters of UTF-8 text.
std::string cut_line(const std::string& text, std::size_t width) {
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
    const auto number = [&](const char* key) { return data.all.value(key, 0.0); };
    std::string text =
        fmt::format("{} running  {} queued  {} node{}  slots {}/{} busy", data.running, data.queued,
                    number("nodes"), number("nodes") == 1 ? "" : "s",
                    number("slots") - number("slots_free"), number("slots"));
    if (number("gpus") > 0)
        text +=
            fmt::format("  GPUs {}/{} busy", number("gpus") - number("gpus_free"), number("gpus"));
    return text + "  " + to_iso8601(now).substr(0, 19) + "Z";
}

std::size_t characters_of(const std::string& text) {
    return static_cast<std::size_t>(std::ranges::count_if(
        text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// Returns the job on one line, or on two if its curves do not fit on the first.
std::vector<std::string> job_lines(const Json& job, const TopData& data, std::size_t width,
                                   Time now) {
    const auto curve = data.curves.find(job.value("id", std::uint64_t{0}));
    std::string sparks;
    if (curve != data.curves.end()) {
        const std::string loss = sparkline(curve->second.loss, kSpark);
        const std::string speed = sparkline(curve->second.tokens_per_second, kSpark);
        if (!loss.empty()) sparks += "  loss " + loss;
        if (!speed.empty()) sparks += "  tokens/s " + speed;
        const std::string use = sparkline(curve->second.gpu_percent, kSpark, std::pair(0., 100.));
        if (!use.empty()) sparks += "  GPU " + use;
    }
    const bool queued = field_text(job, "state") == "queued";
    const auto since = parse_time(job.value(queued ? "submitted_at" : "started_at", Json()));
    const std::string took =
        since ? duration_text(std::chrono::duration<double>(now - *since).count()) : "";
    const std::string line = fmt::format(
        "{:>6}  {:<20} {:<10} {:<8} {:>8}  {}", field_text(job, "id"),
        field_text(job, "name").substr(0, 20), field_text(job, "user").substr(0, 10),
        field_text(job, "state"), took, queued ? field_text(job, "waiting") : progress_text(job));
    if (characters_of(line + sparks) <= width) return {line + sparks};
    return sparks.empty() ? std::vector{line} : std::vector{line, "      " + sparks};
}

}  // namespace

std::string sparkline(const std::vector<double>& values, std::size_t width,
                      std::optional<std::pair<double, double>> bounds) {
    constexpr std::array kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    const std::size_t count = std::min(width, values.size());
    const auto first = values.end() - static_cast<std::ptrdiff_t>(count);
    if (count == 0) return "";
    const auto [least, most] = std::minmax_element(first, values.end());
    const auto [low, high] = bounds.value_or(std::pair(*least, *most));
    const double range = high > low ? high - low : 1;
    std::string text;
    for (auto value = first; value != values.end(); ++value)
        text += kBlocks[static_cast<std::size_t>((std::clamp(*value, low, high) - low) / range *
                                                 7.999)];
    return text;
}

std::vector<std::string> top_lines(const TopData& data, std::size_t width, std::size_t height,
                                   Time now) {
    std::vector<std::string> lines = {summary(data, now), ""};
    std::vector<std::string> nodes = lines_of(nodes_text(data.nodes));
    const std::size_t in_all = data.all.value("nodes", data.nodes.size());
    if (in_all > data.nodes.size())
        nodes.push_back(fmt::format("and {} more: rollctl nodes", in_all - data.nodes.size()));
    lines.insert(lines.end(), nodes.begin(), nodes.end());
    lines.insert(lines.end(), {"", "    ID  NAME                 USER       STATE        TIME  "});
    const std::size_t kept = lines.size() + kEventsLeast + 1;
    std::size_t room = height > kept ? height - kept : 0;
    const std::size_t jobs = std::max<std::size_t>(data.running + data.queued, data.jobs.size());
    std::size_t told = 0;
    for (; told < data.jobs.size(); ++told) {
        const auto more = job_lines(data.jobs[told], data, width, now);
        if (more.size() + (told + 1 < jobs ? 1 : 0) > room) break;  // leave a line for "and N more"
        room -= more.size();
        lines.insert(lines.end(), more.begin(), more.end());
    }
    if (told < jobs) lines.push_back(fmt::format("and {} more: rollctl jobs", jobs - told));
    lines.emplace_back();
    const std::size_t left = height > lines.size() ? height - lines.size() : 0;
    const std::size_t shown = std::min(left, data.events.size());
    lines.insert(lines.end(), data.events.end() - static_cast<std::ptrdiff_t>(shown),
                 data.events.end());
    if (lines.size() > height) lines.resize(height);
    for (std::string& line : lines) line = cut_line(line, width);
    return lines;
}

}  // namespace roll::cli
