// roll-parquet FILE: writes the rows of a Parquet file to stdout, one JSON object in each line.
#include <cstdio>

#include "common/program_end.hpp"
#include "worker/parquet/rows.hpp"

namespace {

int run(int argc, char** argv) {
    if (argc != 2) {
        std::fputs("usage: roll-parquet FILE.parquet\n", stderr);
        return 2;
    }
    const auto done = roll::parquet_rows::write_rows(argv[1], stdout);
    if (done) return 0;
    // Omit the program's name, because a rank reports this line as the reason of its failure
    // (parquet.cpp).
    std::fprintf(stderr, "%s\n", done.error().message.c_str());
    return 1;
}

}  // namespace

int main(int argc, char** argv) {
    return roll::with_last_resort("roll-parquet", [&] { return run(argc, argv); });
}
