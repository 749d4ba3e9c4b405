// Sends requests to rolld and keeps each answer for a second. Many viewers therefore cause no more
// load on rolld than one viewer.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/hash.hpp"
#include "common/json.hpp"

namespace roll::http {

using Instant = std::chrono::steady_clock::time_point;

// Sends an operation and its arguments to rolld, and returns the answer.
using Ask = std::function<Result<Json>(const std::string& op, const Json& args)>;

// An answer as JSON and as the text that clients get. Many replies may share one answer.
struct Answer {
    Json json;
    std::string text;
};

// The class is thread-safe.
class Board {
  public:
    static constexpr auto kFresh = std::chrono::seconds(1);
    static constexpr std::size_t kAnswersMax = 256;

    // At most `at_once` threads call `ask` at the same time. `ask` is never called twice at the
    // same time with the same operation and arguments.
    explicit Board(Ask ask, std::size_t at_once = 1,
                   std::function<Instant()> now = std::chrono::steady_clock::now)
        : asking_(at_once),
          ask_(std::move(ask)),
          now_(std::move(now)) {}

    // Returns the answer to a request. The answer is at most kFresh old. Errors are kept, too, so
    // that a rolld that does not answer is asked only once a second.
    Result<std::shared_ptr<const Answer>> look(const std::string& op, const Json& args);

    // Sends a request that changes something. Forgets all answers, because they may be outdated.
    Result<std::shared_ptr<const Answer>> change(const std::string& op, const Json& args);

  private:
    using Kept = Result<std::shared_ptr<const Answer>>;
    struct Entry {
        Kept answer;
        Instant at;
    };
    Kept put_question(const std::string& op, const Json& args);
    const Kept* fresh(const std::string& key);
    void keep(const std::string& key, const Kept& answer);

    std::mutex& lane_of(const std::string& key) { return asking_[hash64(key) % asking_.size()]; }

    std::vector<std::mutex> asking_;  // each call of ask_ locks one of these mutexes, see lane_of()
    std::mutex mutex_;                // guards entries_
    Ask ask_;
    std::function<Instant()> now_;
    std::map<std::string, Entry> entries_;  // answers by operation and arguments
};

}  // namespace roll::http
