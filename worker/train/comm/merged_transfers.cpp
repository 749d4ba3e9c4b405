#include "worker/train/comm/merged_transfers.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <set>
#include <vector>

#include "common/json.hpp"

namespace roll::train {
namespace {

// Maximum number of rows per sequence for transfers that some ranks have not issued. Without this
// limit, a rank that is far behind would add a row for each transfer that it has not issued.
constexpr std::int64_t kRowsMost = 16;

struct Sequence {
    std::map<int, std::int64_t> next;  // for each rank: number of its next transfer
    // for each number: the descriptions of the transfers that ranks issued under this number, and
    // the ranks that have not finished their transfer
    std::map<std::int64_t, std::set<std::string>> words;
    std::map<std::int64_t, std::set<int>> open;
};

// Groups of the same name are disjoint, so a group's name and its first rank identify the group.
using GroupKey = std::pair<std::string, int>;

struct Group {
    // key: a rank's number in the group; value: its number in the job. Ranks whose text is not
    // known are left out.
    std::map<int, int> ranks;
    std::map<std::string, Sequence> sequences;
};

std::string list(const auto& ranks) {
    std::string text;
    for (const int rank : ranks) text += (text.empty() ? "" : ",") + std::to_string(rank);
    return text;
}

std::map<GroupKey, Group> groups_of(const std::map<int, std::string>& published) {
    std::map<GroupKey, Group> groups;
    for (const auto& [rank, text] : published) {
        const Result<Json> json = parse_json(text);
        if (!json) continue;
        const Json first = json->value("first", Json::object());
        const Json place = json->value("place", Json::object());
        const Json of_groups = json->value("next", Json::object());
        for (const auto& [name, next] : of_groups.items()) {
            Group& group = groups[{name, first.value(name, 0)}];
            group.ranks.emplace(place.value(name, 0), rank);
            if (!next.is_object()) continue;
            for (const auto& [sequence, number] : next.items())
                group.sequences[sequence].next[rank] = number.get<std::int64_t>();
        }
        for (const Json& one : json->value("open", Json::array())) {
            const std::string name = one.value("group", "");
            Sequence& sequence =
                groups[{name, first.value(name, 0)}].sequences[one.value("sequence", "")];
            const auto number = one.value("seq", std::int64_t{0});
            sequence.words[number].insert(one.value("words", ""));
            sequence.open[number].insert(rank);
        }
    }
    return groups;
}

// Returns the ranks that take part in a sequence. A message has two ranks; the name of its sequence
// has their numbers in the group.
std::vector<int> members(const Group& group, const std::string& sequence) {
    int from = 0, to = 0;
    const bool is_message = std::sscanf(sequence.c_str(), "%d>%d", &from, &to) == 2;
    std::vector<int> ranks;
    for (const auto& [place, rank] : group.ranks)
        if (!is_message || place == from || place == to) ranks.push_back(rank);
    std::ranges::sort(ranks);
    return ranks;
}

void add_rows(std::string& table, const std::string& name, const Group& group,
              const std::string& label, const Sequence& sequence) {
    const std::vector<int> ranks = members(group, label);
    if (ranks.empty()) return;
    const auto next = [&](int rank) {
        const auto found = sequence.next.find(rank);
        return found == sequence.next.end() ? std::int64_t{0} : found->second;
    };
    std::set<std::int64_t> numbers;
    for (const auto& [number, waiting] : sequence.open) numbers.insert(number);
    const auto [least, most] = std::ranges::minmax(ranks, {}, next);
    for (std::int64_t i = next(least); i < std::min(next(most), next(least) + kRowsMost); ++i)
        numbers.insert(i);
    for (const std::int64_t number : numbers) {
        std::vector<int> came, absent;
        for (const int rank : ranks) (next(rank) > number ? came : absent).push_back(rank);
        std::string words;
        if (const auto all = sequence.words.find(number); all != sequence.words.end())
            for (const std::string& one : all->second) words += (words.empty() ? "" : " | ") + one;
        const auto open = sequence.open.find(number);
        table += name + "\t" + list(ranks) + "\t" + label + "\t" + std::to_string(number) + "\t" +
                 words + "\t" + list(came) + "\t" +
                 (open == sequence.open.end() ? "" : list(open->second)) + "\t" + list(absent) +
                 "\n";
    }
}

}  // namespace

std::string merged_transfers(const std::map<int, std::string>& published) {
    std::string table = "group\tranks\tsequence\tnumber\ttransfer\tcame\tnot_done\tnever_came\n";
    for (const auto& [key, group] : groups_of(published))
        for (const auto& [label, sequence] : group.sequences)
            if (!group.ranks.empty()) add_rows(table, key.first, group, label, sequence);
    return table;
}

}  // namespace roll::train
