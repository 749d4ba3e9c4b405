// Writes the rows of a Parquet file as JSON.
#pragma once

#include <cstdio>
#include <string>

#include "common/error.hpp"

namespace roll::parquet_rows {

// Writes each row as a JSON object in a line of its own. The keys are the names of the columns, in
// their order. Fails with the path and the reason if the file cannot be read, if a column has a
// type that JSON cannot express, or if `out` cannot be written.
Result<void> write_rows(const std::string& path, std::FILE* out);

}  // namespace roll::parquet_rows
