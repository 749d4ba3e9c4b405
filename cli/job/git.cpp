#include "cli/job/git.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/io/run.hpp"
#include "common/spec/schema/array.hpp"

namespace roll::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Returns the caller's environment for git. Leaves out variables that name another repository, and
// sets each configuration key in `off` to an empty value.
std::vector<std::string> git_environment(const std::vector<std::string>& off) {
    std::vector<std::string> environment = io::current_environment();
    std::erase_if(environment, [](const std::string& one) {
        constexpr std::array kOthers{
            "GIT_DIR=", "GIT_WORK_TREE=", "GIT_INDEX_FILE=", "GIT_CONFIG_COUNT="};
        return std::ranges::any_of(kOthers,
                                   [&](const char* name) { return one.starts_with(name); });
    });
    environment.push_back("GIT_NO_LAZY_FETCH=1");
    environment.push_back(fmt::format("GIT_CONFIG_COUNT={}", off.size()));
    for (std::size_t i = 0; i < off.size(); ++i) {
        environment.push_back(fmt::format("GIT_CONFIG_KEY_{}={}", i, off[i]));
        environment.push_back(fmt::format("GIT_CONFIG_VALUE_{}=", i));
    }
    return environment;
}

// Runs git in `directory`, with the configuration keys `off` turned off. Returns git's output. If
// the output is longer than `most` bytes, returns only the first `most` + 1 bytes. Returns nullopt
// if git fails, is missing or does not end before `deadline`.
std::optional<std::string> git(const std::filesystem::path& directory,
                               std::vector<std::string> arguments, std::size_t most,
                               Clock::time_point deadline,
                               const std::vector<std::string>& off = {}) {
    io::Spawn spawn;
    spawn.arguments = {"git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-C", directory};
    spawn.arguments.insert(spawn.arguments.end(), arguments.begin(), arguments.end());
    spawn.environment = git_environment(off);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    auto done = io::run(std::move(spawn), {.deadline = left, .output_max = most});
    if (!done) return std::nullopt;
    const bool enough = done->output.size() > most;
    if (!enough && done->exit_code != 0) return std::nullopt;
    return std::move(done->output);
}

std::string without_newline(const std::string& text) { return text.substr(0, text.find('\n')); }

// Returns the configuration keys of git's filters. These keys must be turned off. Otherwise, git
// would run the commands in them, and the owner of the repository may have chosen any command.
std::vector<std::string> filter_keys(const std::filesystem::path& top, Clock::time_point deadline) {
    const auto listed = git(
        top, {"config", "--name-only", "--get-regexp", "^filter\\..*\\.(clean|process|required)$"},
        64u << 10, deadline);
    std::vector<std::string> keys;
    std::istringstream lines(listed.value_or(""));  // git fails if there is no filter key
    for (std::string line; std::getline(lines, line);) keys.push_back(line);
    return keys;
}

// Returns the text with bytes that are not UTF-8 replaced, because a job document is JSON.
std::string as_utf8(const std::string& text) { return Json::parse(dump(Json(text))); }

}  // namespace

std::optional<Json> git_state(const std::filesystem::path& directory, std::size_t diff_max) {
    constexpr std::size_t kShort = 8192;
    const auto deadline = Clock::now() + std::chrono::seconds(3);
    const auto top = git(directory, {"rev-parse", "--show-toplevel"}, kShort, deadline);
    if (!top) return std::nullopt;
    Json state = {{"directory", as_utf8(without_newline(*top))}};
    const auto branch = git(directory, {"symbolic-ref", "--short", "-q", "HEAD"}, kShort, deadline);
    state["branch"] = as_utf8(without_newline(branch.value_or("")));
    const auto commit = git(directory, {"rev-parse", "-q", "--verify", "HEAD"}, kShort, deadline);
    state["commit"] = without_newline(commit.value_or(""));
    if (!commit) return state;
    const auto diff =
        git(without_newline(*top),
            {"diff", "HEAD", "--no-color", "--no-ext-diff", "--no-textconv",
             "--ignore-submodules=dirty"},
            std::max(diff_max, kShort), deadline, filter_keys(without_newline(*top), deadline));
    state["dirty"] = diff ? Json(!diff->empty()) : Json();
    if (!diff)
        state["diff_left_out"] = "git diff failed, or did not end within 3 s";
    else if (diff->size() > diff_max)
        state["diff_left_out"] = fmt::format("the diff is longer than {} bytes", diff_max);
    else if (!diff->empty())
        state["diff"] = as_utf8(*diff);
    return state;
}

void add_git(spec::JobSpec& spec, const std::string& base, std::size_t jobs) {
    constexpr std::size_t kAllCopies = 16u << 20;
    auto document = parse_json(spec.document.text());
    if (!document || !document->is_object() || document->contains("git")) return;
    const auto indices = spec.array ? spec::array_indices(spec.array->indices)
                                    : Result<std::vector<int>>(std::vector<int>{0});
    const std::size_t copies = jobs * (indices ? std::max<std::size_t>(indices->size(), 1) : 1);
    const std::string directory = document->value("workdir", base);
    const std::size_t most = std::min(kDiffBytesMax, kAllCopies / copies);
    // Keep the states that were read. All jobs of a submission usually have the same work tree, so
    // git then runs only once.
    static std::map<std::pair<std::string, std::size_t>, std::optional<Json>> known;
    const auto [state, is_new] = known.try_emplace({directory, most});
    if (is_new) state->second = git_state(directory, most);
    if (!state->second) return;
    (*document)["git"] = *state->second;
    spec.document = document->dump();
}

std::string git_text(const Json& git) {
    if (!git.is_object()) return "";
    const std::string commit = git.value("commit", ""), branch = git.value("branch", "");
    std::string text = commit.empty() ? "no commit" : commit.substr(0, 12);
    if (!branch.empty()) text += " on " + branch;
    if (git.value("dirty", Json()) == true) text += ", with changes";
    if (git.contains("diff_left_out")) text += " (" + git.value("diff_left_out", "") + ")";
    return text;
}

}  // namespace roll::cli
