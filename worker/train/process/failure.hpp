// RankFailure, the exception that ends a rank. The exit status tells the kind of failure
// (docs/internals.md). RankFailure may be thrown anywhere in the trainer; main() catches it.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "common/error.hpp"

namespace roll::train {

class RankFailure : public std::runtime_error {
  public:
    RankFailure(int status, const std::string& sentence)
        : std::runtime_error(sentence),
          status_(status) {}
    int status() const { return status_; }

  private:
    int status_;
};

// Returns the exit status of a rank that ends with an error of this kind.
int status_of(ErrorCode code);

// Returns an error as one sentence: its message and, if it has one, its hint.
std::string sentence_of(const Error& error);

// Returns the value of `result`, or throws its error as a RankFailure.
template <class T>
T need(Result<T> result) {
    if (!result) throw RankFailure(status_of(result.error().code), sentence_of(result.error()));
    if constexpr (!std::is_void_v<T>) return *std::move(result);
}

// Like need(), but for data that was read from disk. Corrupt data counts as invalid input (exit
// status 2), because another attempt would read the same bytes.
template <class T>
T of_disk(Result<T> result) {
    if (!result && result.error().code == ErrorCode::Corrupt)
        throw RankFailure(2, sentence_of(result.error()));
    return need(std::move(result));
}

}  // namespace roll::train
