// The examples of a few-shot task: answered questions in front of a question, drawn as by
// lm-evaluation-harness.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "worker/train/data/python_random.hpp"

namespace roll::train {

class Examples {
  public:
    struct Options {
        std::size_t count = 0;      // number of examples in front of a question
        bool in_order = false;      // true: the first records (first_n); false: drawn with the seed
        bool has_question = false;  // true: the questions are among the records
        std::uint32_t seed = 1234;
    };
    // Returns the text of the example that is made from a record.
    using Write = std::function<Result<std::string>(std::size_t record)>;

    // `records` has the lines of the data set from which examples are drawn. The text of these
    // lines must outlive this object.
    Examples(std::vector<std::string_view> records, const Options& options, Write write);

    // Returns the examples for the next question. Call this function for the questions in the order
    // of their data set, because all calls draw from one sequence of random numbers. `line` is the
    // question's record. Fails with InvalidArgument if there are too few records.
    Result<std::string> next(std::string_view line);

  private:
    std::vector<std::size_t> others(std::string_view line) const;
    Result<std::vector<std::size_t>> chosen(std::string_view line);

    std::vector<std::string_view> records_;
    // for each record, a number; records with the same values have the same number
    std::vector<std::size_t> identities_;
    Options options_;
    Write write_;
    PythonRandom random_;
    std::vector<std::optional<std::string>> written_;
};

}  // namespace roll::train
