// A preview of the first documents of a job's data. It shows the tokens that the model reads, and
// the tokens that it learns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/spec/train/train.hpp"

namespace roll::train {

struct PreviewToken {
    std::int64_t id = 0;
    bool learned = false;
};

// The text of consecutive tokens that all count in the loss, or that are all context only.
struct PreviewPart {
    std::string text;
    bool learned = false;
};

struct PreviewDocument {
    std::int64_t size = 0;             // number of tokens before truncation
    std::int64_t learned = 0;          // number of learned tokens after truncation
    std::vector<PreviewToken> tokens;  // tokens after truncation
    std::vector<PreviewPart> parts;    // the text of `tokens`
};

struct PreviewFile {
    std::string path;
    std::string form;  // form of the conversations; empty if the file has none
    // true: the counts below are of the whole file; false: of the file's first MiB
    bool whole = false;
    std::int64_t documents = 0, tokens = 0, learned = 0;  // tokens are counted after truncation
    std::int64_t cut = 0;                                 // number of documents that are truncated
    std::int64_t dropped = 0;  // number of documents that truncation leaves out; not in `documents`
    std::vector<std::string> bad;        // bad lines, as "line N: REASON"
    std::vector<PreviewDocument> shown;  // the first documents of the file
};

// Reads the first MiB of each training file. `documents` is the number of documents that are shown
// for each file. Documents are truncated as in training. If seq_length is 0, they are not
// truncated. Throws RankFailure.
std::vector<PreviewFile> preview(const spec::TrainSpec& spec, std::int64_t documents);

struct PreviewStyle {
    std::size_t columns = 80;
    bool color = false;  // true: learned text is green; false: it is put between {+ and +}
};

std::string preview_text(const std::vector<PreviewFile>& files, const PreviewStyle& style);
// Returns JSON in the format roll.data_preview/1.
OrderedJson preview_json(const std::vector<PreviewFile>& files);

}  // namespace roll::train
