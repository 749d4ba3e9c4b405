// Fuzzes safetensors. Any bytes are refused, or the tensors fill the file exactly, one after the
// other.
#include "common/tensor/safetensors.hpp"

#include "common/check.hpp"
#include "tests/fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto header = roll::tensor::parse_safetensors(roll::fuzz::bytes_of(data, size));
    if (!header) return 0;
    ROLL_CHECK(header->file_size == static_cast<std::int64_t>(size));
    std::int64_t end = -1;
    for (const roll::tensor::SafetensorsEntry& entry : header->entries) {
        ROLL_CHECK(end < 0 || entry.begin == end);
        ROLL_CHECK(entry.begin >= 8 && entry.end >= entry.begin);
        end = entry.end;
    }
    ROLL_CHECK(end < 0 || end == header->file_size);
    return 0;
}
