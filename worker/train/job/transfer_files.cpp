#include "worker/train/job/transfer_files.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "common/files.hpp"
#include "worker/train/comm/merged_transfers.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBegin = "published-rank-", kEnd = ".json";

fs::path file_of(const fs::path& directory, int rank) {
    return directory / (std::string(kBegin) + std::to_string(rank) + std::string(kEnd));
}

// Returns the rank whose text the file has; nullopt for any other file.
std::optional<int> rank_of(const std::string& name) {
    if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return std::nullopt;
    const char* const end = name.data() + name.size() - kEnd.size();
    int rank = 0;
    const auto [stop, error] = std::from_chars(name.data() + kBegin.size(), end, rank);
    return error == std::errc() && stop == end ? std::optional(rank) : std::nullopt;
}

std::vector<int> ranks_in(const fs::path& directory) {
    std::vector<int> ranks;
    std::error_code error;
    for (auto entry = fs::directory_iterator(directory, error);
         !error && entry != fs::directory_iterator(); entry.increment(error))
        if (const auto rank = rank_of(entry->path().filename().string())) ranks.push_back(*rank);
    return ranks;
}

}  // namespace

Result<void> merge_transfer_files(const fs::path& directory, int rank,
                                  const std::map<int, std::string>& texts,
                                  std::chrono::milliseconds grace) {
    const fs::path table = directory / "transfers.tsv";
    for (const auto& [of, text] : texts)
        ROLL_TRY_VOID(write_file_atomically(file_of(directory, of), text));
    std::this_thread::sleep_for(grace);
    const std::vector<int> ranks = ranks_in(directory);
    // Do not count rank 0. It is stopped, and the file with its text may be from another rank.
    const bool is_lowest =
        std::ranges::none_of(ranks, [&](int other) { return other > 0 && other < rank; });
    std::error_code error;
    const auto written = fs::last_write_time(table, error);
    const bool is_late = !error && written <= fs::last_write_time(file_of(directory, rank), error);
    if (!is_lowest && !is_late) return {};
    std::map<int, std::string> published;
    for (const int other : ranks)
        if (auto text = read_file(file_of(directory, other)))
            published.emplace(other, *std::move(text));
    return write_file_atomically(table, merged_transfers(published));
}

}  // namespace roll::train
