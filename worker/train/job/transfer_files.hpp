// The ranks publish texts about their transfers in a store that rank 0 serves. If rank 0 does not
// respond, the ranks exchange these texts through files next to the logs.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <string>

#include "common/error.hpp"

namespace roll::train {

// Writes `texts` (FlightRecorder::texts()) to `directory`, one file for each rank. Waits for
// `grace` for the files of other ranks. Then the lowest rank that has written its own text writes
// the table of all texts (merged_transfers.hpp) to `transfers.tsv`. A rank that writes its text
// only after this table writes the table again. All ranks must see the same directory. `rank`: this
// rank.
Result<void> merge_transfer_files(const std::filesystem::path& directory, int rank,
                                  const std::map<int, std::string>& texts,
                                  std::chrono::milliseconds grace);

}  // namespace roll::train
