// Fuzzes the .idx of a token file. The first byte of the input is the size of the .bin, the other
// bytes are the .idx. Any bytes are refused, or every sequence and document is inside the .bin.
#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

#include "common/check.hpp"
#include "tests/fuzz/input.hpp"
#include "worker/train/data/corpus/token_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    namespace fs = std::filesystem;
    if (size == 0) return 0;
    static const fs::path bin =
        fs::temp_directory_path() / ("roll-fuzz-" + std::to_string(::getpid()) + ".bin");
    const std::string_view index = roll::fuzz::text_of(data + 1, size - 1);
    std::ofstream(bin) << std::string(data[0], 'x');
    std::ofstream(roll::data::index_of(bin), std::ios::binary) << index;
    const auto file = roll::data::TokenFile::open_indexed(bin);
    if (!file) return 0;
    std::size_t tokens = 0, of_documents = 0;
    for (std::size_t i = 0; i < file->sequences(); ++i) tokens += file->sequence(i).size();
    for (std::size_t i = 0; i < file->documents(); ++i) of_documents += file->document(i).size();
    ROLL_CHECK(tokens == file->tokens().size());
    ROLL_CHECK(file->documents() == 0 || of_documents == tokens);
    std::size_t before = 0;
    for (const std::size_t start : file->starts_within(0, tokens)) {
        ROLL_CHECK(start > before && start < tokens);
        before = start;
    }
    return 0;
}
