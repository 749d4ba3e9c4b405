// Tests the rows of Parquet files as JSON. pyarrow 26.0.1 has written the files beside this test:
// rows.parquet in two row groups with zstd, and bytes.parquet with a column of bytes.
#include <gtest/gtest.h>

#include "worker/parquet/rows.hpp"

namespace roll::parquet_rows {
namespace {

const std::string kFolder = TEST_FOLDER "/";

// Returns the lines that are written for a file, or the error.
std::string lines_of(const std::string& path) {
    std::FILE* const file = std::tmpfile();
    const auto done = write_rows(path, file);
    std::string text(static_cast<std::size_t>(std::ftell(file)), '\0');
    std::rewind(file);
    EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
    std::fclose(file);
    return done ? text : done.error().message;
}

TEST(ParquetRows, AreLinesOfJson) {
    EXPECT_EQ(
        lines_of(kFolder + "rows.parquet"),
        R"({"messages":[{"role":"user","content":"Grüße \"you\""},)"
        R"({"role":"assistant","content":"世界\n"}],)"
        R"("label":true,"score":0.5,"count":3,"day":"2026-11-27","kind":"a","none":null})"
        "\n"
        R"({"messages":[{"role":"assistant","tool_calls":[{"name":"add"}]}],)"
        R"("label":null,"score":null,"count":-9007199254740993,"day":null,"kind":"b","none":null})"
        "\n"
        R"({"messages":[],"label":false,"score":1e+300,"count":0,"day":"1970-01-01","kind":"a",)"
        R"("none":null})"
        "\n");
}

TEST(ParquetRows, WhatHasNoFormInJsonIsRefused) {
    EXPECT_NE(
        lines_of(kFolder + "bytes.parquet")
            .find("bytes.parquet: column image: a value of type binary cannot be written as JSON"),
        std::string::npos)
        << lines_of(kFolder + "bytes.parquet");
    EXPECT_NE(lines_of(kFolder + "parquet_rows_test.cpp").find("parquet_rows_test.cpp: "),
              std::string::npos);
    EXPECT_NE(lines_of(kFolder + "none.parquet").find("none.parquet: "), std::string::npos);
}

}  // namespace
}  // namespace roll::parquet_rows
