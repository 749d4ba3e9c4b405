// Exchanges what the ranks have published about their transfers through files beside the logs. The
// ranks do so when rank 0 does not respond, because rank 0 serves the store for such texts.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <string>

#include "common/error.hpp"

namespace roll::train {

// Writes `texts` (FlightRecorder::texts()) to `directory`, one file for each rank. Waits for
// `grace` for the files of other ranks. Then the lowest rank that has written its own text writes
// the table of all texts (merged_transfers.hpp) to `transfers.tsv`, and so does each rank that
// comes after this table. All ranks must see the same directory. `rank`: this rank.
Result<void> merge_transfer_files(const std::filesystem::path& directory, int rank,
                                  const std::map<int, std::string>& texts,
                                  std::chrono::milliseconds grace);

}  // namespace roll::train
