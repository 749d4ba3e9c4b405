#include "worker/plan/pipeline_csv.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "common/counted.hpp"
#include "common/number.hpp"
#include "common/split.hpp"
#include "worker/plan/pipeline_check.hpp"

namespace roll::plan {
namespace {

constexpr std::size_t kBytesMax = std::size_t{64} << 20;

struct Cell {
    std::string text;  // text of the cell in the file
    int stage = 0;
    char kind = 'F';
    int microbatch = 0;
};

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kBlank = " \t\r\"";
    const std::size_t begin = std::min(text.find_first_not_of(kBlank), text.size());
    return text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

std::optional<Cell> parse_cell(std::string_view text) {
    const std::size_t kind = text.find_first_of("FIWB");
    if (kind == std::string_view::npos) return std::nullopt;
    const auto stage = parse_number<int>(text.substr(0, kind));
    const auto microbatch = parse_number<int>(text.substr(kind + 1));
    if (!stage || !microbatch || *stage < 0 || *microbatch < 0) return std::nullopt;
    return Cell{std::string(text), *stage, text[kind], *microbatch};
}

Result<std::vector<std::vector<Cell>>> parse_rows(std::string_view text) {
    std::vector<std::vector<Cell>> rows;
    for (const std::string& line : split_at(text, '\n')) {
        std::vector<Cell>& row = rows.emplace_back();
        int column = 0;
        for (const std::string& part : split_at(line, ',')) {
            ++column;
            const std::string_view word = trimmed(part);
            if (word.empty()) continue;
            auto cell = parse_cell(word);
            if (!cell)
                return fail(ErrorCode::InvalidArgument,
                            fmt::format("rank {}, cell {}: \"{}\" is not an operation; allowed: "
                                        "STAGE, then F, I, W or B, then MICROBATCH, such as 0F3",
                                        rows.size() - 1, column, word.substr(0, 40)));
            row.push_back(*std::move(cell));
        }
    }
    // The file's last line break makes an empty row.
    while (!rows.empty() && rows.back().empty()) rows.pop_back();
    return rows;
}

// Returns the schedule with this placement. Fails if a rank has an operation of a stage of another
// rank.
Result<PipelineSchedule> placed(const std::vector<std::vector<Cell>>& rows, Placement placing,
                                PipelineSchedule schedule) {
    schedule.placing = placing;
    for (int rank = 0; rank < schedule.pp; ++rank) {
        std::vector<Op>& ops = schedule.ranks.emplace_back();
        for (const Cell& cell : rows[static_cast<std::size_t>(rank)]) {
            if (cell.stage >= schedule.stages())
                return fail(ErrorCode::InvalidArgument,
                            fmt::format("rank {}, {}: this stage does not exist; allowed: 0 to {}",
                                        rank, cell.text, schedule.stages() - 1));
            const Home home = schedule.home(cell.stage);
            if (home.rank != rank)
                return fail(ErrorCode::InvalidArgument,
                            fmt::format("rank {}, {}: stage {} belongs to rank {}", rank, cell.text,
                                        cell.stage, home.rank));
            const auto add = [&](OpKind kind) {
                ops.push_back({kind, home.chunk, cell.microbatch});
            };
            if (cell.kind == 'F') add(OpKind::Forward);
            if (cell.kind == 'I' || cell.kind == 'B') add(OpKind::BackwardInput);
            if (cell.kind == 'W' || cell.kind == 'B') add(OpKind::BackwardWeight);
        }
    }
    return schedule;
}

}  // namespace

Result<PipelineSchedule> schedule_from_csv(std::string_view text, int pp, int vp,
                                           int microbatches) {
    if (text.size() > kBytesMax)
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("has {} bytes; allowed: at most {}", text.size(), kBytesMax));
    ROLL_TRY(const auto rows, parse_rows(text));
    if (std::ssize(rows) != pp)
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("has {}; allowed: {}, one for each pipeline rank",
                                counted(rows.size(), "line"), pp));
    PipelineSchedule empty;
    empty.pp = pp;
    empty.vp = vp;
    empty.microbatches = microbatches;
    empty.name = "file";
    auto schedule = placed(rows, Placement::Loop, empty);
    if (!schedule && vp == 2) {
        if (auto other = placed(rows, Placement::V, empty)) schedule = std::move(other);
    }
    if (!schedule) return schedule;
    ROLL_TRY_VOID(check(*schedule));
    return schedule;
}

}  // namespace roll::plan
