#include "daemon/ledger/job_numbers.hpp"

#include <algorithm>
#include <variant>

#include "daemon/ledger/chain.hpp"
#include "daemon/ledger/event_json.hpp"
#include "daemon/ledger/sqlite.hpp"

namespace roll::ledger {
namespace {

struct Told {
    Mark head;  // last row before the first row with a wrong hash, or the newest row
    std::uint64_t next_job = 1;
};

std::uint64_t next_after(const core::Row& row) {
    if (row.kind != "job_submitted" && row.kind != "incarnation_raised") return 1;
    const auto event = event_from(row.kind, row.body);
    if (!event) return 1;
    if (const auto* raised = std::get_if<core::IncarnationRaised>(&*event)) return raised->next_job;
    return std::get<core::JobSubmitted>(*event).job.value + 1;
}

Told told_by(const std::filesystem::path& ledger) {
    Told told;
    std::error_code ignored;
    if (!std::filesystem::exists(ledger, ignored)) return told;
    const auto database = open_database(ledger);
    if (!database) return told;
    const auto all =
        prepare(database->get(), "SELECT seq, at, kind, body, hash FROM events ORDER BY seq");
    if (!all) return told;
    for (;;) {
        const auto more = step(all->get());
        if (!more || !*more) return told;
        const core::Row row = row_of(all->get());
        const Mark next{row.seq, chain(told.head.hash, row)};
        if (next.hash != static_cast<std::uint64_t>(sqlite3_column_int64(all->get(), 4)))
            return told;
        told.head = next;
        told.next_job = std::max(told.next_job, next_after(row));
    }
}

}  // namespace

std::uint64_t unused_job(const std::filesystem::path& state) {
    const Told told = told_by(state / "ledger.db");
    const auto mark = MarkFile::open(state / "ledger.mark");
    const Mark marked = mark ? mark->read().value_or(Mark{}) : Mark{};
    const std::int64_t lost = std::max<std::int64_t>(0, marked.seq - told.head.seq);
    return told.next_job + static_cast<std::uint64_t>(lost);
}

}  // namespace roll::ledger
