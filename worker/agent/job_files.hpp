// Fetches the files that jobs name (key `files`) from rolld and lays them out for the attempts on
// this node:
//
//   DIRECTORY/JOB-TOKEN/NAME   the files of an attempt, which its programs may change
//   DIRECTORY/pieces/SHA256    pieces of files, kept for later attempts
//
// One piece is requested at a time. The caller sends the requests and passes on the answers. The
// functions block on the local disk of the state directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/error.hpp"
#include "common/protocol/pieces.hpp"
#include "common/protocol/worker.hpp"
#include "common/spec/job/staged_files.hpp"
#include "worker/agent/core/lease.hpp"

namespace roll::agent {

class JobFiles {
  public:
    // For a process that starts no attempts, such as the reaper.
    JobFiles() = default;
    // Removes the files that an earlier roll-worker left in the directory. Later keeps at most
    // `kept_bytes_max` bytes of pieces that no waiting attempt needs.
    explicit JobFiles(std::filesystem::path directory, std::uint64_t kept_bytes_max = 256u << 20);

    // Removes from `answer` the start orders whose files have not arrived yet, and begins to fetch
    // these files. rolld repeats the removed orders. Marks an order as refused if its files cannot
    // be fetched or written.
    void hold_back(protocol::Answer& answer);
    // Returns the request to send now, if there is one. Repeats a request that was not answered.
    std::optional<protocol::PieceRequest> request(Instant now);
    void take(const protocol::Piece& piece);
    // Returns true if the files of an attempt have arrived since the last call, or if this class
    // has given up fetching them. The caller then asks rolld for the order again.
    bool take_news() { return std::exchange(news_, false); }

    // Removes the files of an attempt that has ended.
    void remove(const AttemptKey& key);
    // Removes the files of each attempt whose start order rolld has withdrawn: `is_wanted` returns
    // false for these attempts.
    void keep_only(const std::function<bool(const AttemptKey&)>& is_wanted);

  private:
    struct Kept {
        std::uint64_t bytes = 0;
        std::uint64_t used = 0;  // number of the last use; higher means later
    };
    void fetch(const protocol::StartOrder& order);
    void settle(const AttemptKey& key, std::string trouble);
    std::set<std::string> lacking() const;
    void keep(const protocol::Piece& piece);
    void make_room();
    void lay_out_all();
    // removes the pieces of these files from kept_
    void forget(const std::vector<spec::StagedFile>& files);
    Result<void> lay_out(const AttemptKey& key, const std::vector<spec::StagedFile>& files);
    void give_up(const std::string& piece, const std::string& trouble);

    std::filesystem::path directory_{};  // directory of the files and pieces; empty: none
    std::uint64_t kept_bytes_max_ = 0;
    std::uint64_t kept_bytes_ = 0;
    std::uint64_t uses_ = 0;
    std::map<std::string, Kept> kept_{};
    std::map<AttemptKey, std::vector<spec::StagedFile>> waiting_{};
    std::string asked_{};  // piece of the request that is not answered yet; empty: none
    Instant asked_at_{};
    // Attempts that no longer wait for files. The text says why the files could not be fetched or
    // written; it is empty if they were written.
    std::map<AttemptKey, std::string> settled_{};
    bool news_ = false;
};

}  // namespace roll::agent
