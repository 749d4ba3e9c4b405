// Joins what the ranks of a job have published about their transfers into one table. Pure.
#pragma once

#include <map>
#include <string>

namespace roll::train {

// Returns a table with tabs between its columns. The table has a row for each published transfer
// that a rank has issued but not finished. It also has rows for the first transfers of a sequence
// that some ranks have issued and others have not. The columns are the group, its ranks, the
// sequence ("" for collectives, "FROM>TO SITE" for messages), the number in the sequence, the
// transfer, the ranks that issued it, the ranks that issued it but have not finished it, and the
// ranks that never issued it. If ranks issued different transfers under one number, the column of
// the transfer lists all of them. The column of the transfer is empty if every rank that issued the
// transfer has finished it.
//
// `published`: for each rank, the latest text of its FlightRecorder. Ranks without a text are in no
// column.
std::string merged_transfers(const std::map<int, std::string>& published);

}  // namespace roll::train
