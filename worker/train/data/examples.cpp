#include "worker/train/data/examples.hpp"

#include <algorithm>
#include <numeric>

#include "common/json.hpp"

namespace roll::train {
namespace {

// Returns a number that is the same for lines with the same JSON value.
std::size_t identity_of(std::string_view line) {
    return std::hash<std::string>{}(Json::parse(line, nullptr, false).dump());
}

}  // namespace

Examples::Examples(std::vector<std::string_view> records, const Options& options, Write write)
    : records_(std::move(records)),
      options_(options),
      write_(std::move(write)),
      random_(options.seed),
      written_(records_.size()) {
    for (const std::string_view line : records_) identities_.push_back(identity_of(line));
}

// Returns the records other than the question's own record.
std::vector<std::size_t> Examples::others(std::string_view line) const {
    std::vector<std::size_t> all(records_.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    std::erase_if(all,
                  [&, own = identity_of(line)](std::size_t i) { return identities_[i] == own; });
    return all;
}

Result<std::vector<std::size_t>> Examples::chosen(std::string_view line) {
    const auto too_few = [&](std::size_t found) {
        return fail(ErrorCode::InvalidArgument,
                    "num_fewshot is " + std::to_string(options_.count) + ", but only " +
                        std::to_string(found) +
                        (found == 1 ? " record can be an example" : " records can be examples") +
                        " for this question; set num_fewshot to at most " + std::to_string(found));
    };
    if (options_.in_order) {
        std::vector<std::size_t> first = others(line);
        if (first.size() < options_.count) return too_few(first.size());
        first.resize(options_.count);
        return first;
    }
    // Draw one record more than needed, because one of the drawn records may be the question's own.
    const std::size_t drawn = options_.count + (options_.has_question ? 1 : 0);
    if (records_.size() < drawn) return too_few(records_.size() - (drawn - options_.count));
    std::vector<std::size_t> found = random_.sample(records_.size(), drawn);
    std::erase_if(found,
                  [&, own = identity_of(line)](std::size_t i) { return identities_[i] == own; });
    if (found.size() >= options_.count) {
        found.resize(options_.count);
        return found;
    }
    // Too few records are left, because several drawn records have the same values as the
    // question's record. Draw again, but only from records with other values.
    const std::vector<std::size_t> pool = others(line);
    if (pool.size() < options_.count) return too_few(pool.size());
    found = random_.sample(pool.size(), options_.count);
    for (std::size_t& one : found) one = pool[one];
    return found;
}

Result<std::string> Examples::next(std::string_view line) {
    ROLL_TRY(const std::vector<std::size_t> found, chosen(line));
    std::string text;
    for (const std::size_t i : found) {
        if (!written_[i]) {
            ROLL_TRY(written_[i], write_(i));
        }
        text += *written_[i];
    }
    return text;
}

}  // namespace roll::train
