#include "worker/train/data/scratch_tokens.hpp"

#include <string>

#include <unistd.h>

#include "worker/train/data/corpus/parquet.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {

namespace fs = std::filesystem;

Scratch::Scratch()
    : path(fs::temp_directory_path() / ("roll-tokens-" + std::to_string(::getpid()))) {
    fs::create_directory(path);
}

Scratch::~Scratch() {
    std::error_code error;
    fs::remove_all(path, error);
}

data::TokenFile open_tokens(const fs::path& path, const tokenizer::TextTokenizer& tokenizer,
                            const data::PrepareOptions& options) {
    const auto all = [](const data::PrepareProgress&) { return true; };
    if (data::is_parquet(path))
        return open_tokens(*of_disk(data::lines_of_parquet(path, options.directory, all)),
                           tokenizer, options);
    if (path.extension() == ".bin") return of_disk(data::TokenFile::open_indexed(path));
    const bool bytes = tokenizer.identity == tokenizer::bytes_tokenizer().identity;
    if (bytes && path.extension() == ".txt") return of_disk(data::TokenFile::open_bytes(path));
    const auto prepared = of_disk(data::prepare(path, tokenizer.tokenizer, options, all));
    return of_disk(data::TokenFile::open_indexed(prepared->bin));
}

}  // namespace roll::train
