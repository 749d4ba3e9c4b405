// tokenize_documents TOKENIZER DOCUMENTS OUT [THREADS]
//
// DOCUMENTS contains, for each document, its size (u32) and its bytes. OUT gets four entries for
// each document, each after its count (u32): the ids without special tokens; the ids with special
// tokens; the text that these ids decode to; the text that these ids decode to if special tokens
// are left out. If OUT is "-", nothing is written. Prints the seconds that the encoding without
// special tokens took.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "common/check.hpp"
#include "common/files.hpp"
#include "worker/tokenizer/tokenizer.hpp"

namespace {

using Ids = std::vector<std::uint32_t>;

std::vector<std::string_view> documents_of(std::string_view file) {
    std::vector<std::string_view> documents;
    while (!file.empty()) {
        std::uint32_t size = 0;
        ROLL_CHECK(file.size() >= sizeof(size));
        std::memcpy(&size, file.data(), sizeof(size));
        ROLL_CHECK(file.size() - sizeof(size) >= size);
        documents.push_back(file.substr(sizeof(size), size));
        file.remove_prefix(sizeof(size) + size);
    }
    return documents;
}

void put(std::ofstream& out, const void* data, std::size_t count, std::size_t each) {
    const auto size = static_cast<std::uint32_t>(count);
    out.write(reinterpret_cast<const char*>(&size), sizeof(size));
    out.write(static_cast<const char*>(data), static_cast<std::streamsize>(count * each));
}

// Encodes all documents. Each thread takes the next document until none is left.
std::vector<Ids> encode_all(const roll::tokenizer::Tokenizer& tokenizer,
                            const std::vector<std::string_view>& documents, int threads) {
    std::vector<Ids> ids(documents.size());
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
        for (std::size_t i = next++; i < documents.size(); i = next++)
            ids[i] = tokenizer.encode(documents[i], {.add_special = false});
    };
    std::vector<std::jthread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back(work);
    work();
    others.clear();
    return ids;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 4) return 2;
    const auto tokenizer = roll::tokenizer::Tokenizer::load(argv[1]);
    if (!tokenizer) {
        std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str());
        return roll::exit_code(tokenizer.error().code);
    }
    const auto file = roll::read_file(argv[2]);
    ROLL_CHECK(file.has_value());
    const std::vector<std::string_view> documents = documents_of(*file);
    const auto start = std::chrono::steady_clock::now();
    const std::vector<Ids> plain =
        encode_all(*tokenizer, documents, argc > 4 ? std::stoi(argv[4]) : 1);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf("%.6f\n", seconds.count());
    if (std::string_view(argv[3]) == "-") return 0;
    std::ofstream out(argv[3], std::ios::binary);
    for (std::size_t i = 0; i < documents.size(); ++i) {
        const Ids whole = tokenizer->encode(documents[i]);
        const std::string text = tokenizer->decode(whole);
        const std::string shown = tokenizer->decode(whole, true);
        put(out, plain[i].data(), plain[i].size(), sizeof(std::uint32_t));
        put(out, whole.data(), whole.size(), sizeof(std::uint32_t));
        put(out, text.data(), text.size(), 1);
        put(out, shown.data(), shown.size(), 1);
    }
    return out ? 0 : 1;
}
