// Makes the index of Megatron's order of a token file and prints seconds of the clock and of the
// processor. order.py runs it beside Megatron-core.
//
//     order_bench FILE.bin SEQ_LENGTH SAMPLES SEED
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>

#include "worker/train/data/corpus/megatron_index.hpp"

int main(int, char** words) {
    const auto begin = std::chrono::steady_clock::now();
    const std::clock_t cpu = std::clock();
    const auto file = roll::data::TokenFile::open_indexed(words[1]);
    if (!file) return std::fprintf(stderr, "%s\n", file.error().message.c_str()), 1;
    const auto index =
        roll::data::MegatronIndex::make(*file, 0, file->sequences(),
                                        {.seq_length = std::stoll(words[2]),
                                         .seed = static_cast<std::uint32_t>(std::stoul(words[4])),
                                         .samples = std::stoull(words[3])});
    if (!index) return std::fprintf(stderr, "%s\n", index.error().message.c_str()), 1;
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
    std::printf("[%.6f, %.6f, %llu, %llu]\n", wall.count(),
                static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC,
                static_cast<unsigned long long>(index->size()),
                static_cast<unsigned long long>(index->documents().size()));
}
