// Reads .parquet files. The program roll-parquet (worker/parquet) writes the rows of a file as
// lines of a .jsonl. This .jsonl is then read like any other. Each .parquet is converted only once.
#pragma once

#include <filesystem>
#include <optional>

#include "common/error.hpp"
#include "worker/train/data/corpus/fingerprint.hpp"

namespace roll::data {

bool is_parquet(const std::filesystem::path& path);

// Returns the path of the .jsonl in `directory` that has the rows of a .parquet. Makes the .jsonl
// if it does not exist. The .jsonl has the modification time of the .parquet. Returns nullopt if
// `go_on` returned false. Fails with NotFound if the .parquet does not exist, or if roll-parquet is
// not installed. Fails with InvalidArgument and the reason if roll-parquet cannot read the file.
Result<std::optional<std::filesystem::path>> lines_of_parquet(
    const std::filesystem::path& source, const std::filesystem::path& directory, const GoOn& go_on);

}  // namespace roll::data
