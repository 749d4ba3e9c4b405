// Enough of rolld to lead a real roll-worker: one ROUTER with CURVE, a beacon, orders until obeyed.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/io/curve_keys.hpp"
#include "common/protocol/worker.hpp"

namespace roll::agent {

class FakeRolld {
  public:
    // Takes its place in a state directory: keys, endpoint, beacon.
    FakeRolld(const std::filesystem::path& directory, std::uint64_t incarnation);
    FakeRolld(const FakeRolld&) = delete;
    FakeRolld& operator=(const FakeRolld&) = delete;
    ~FakeRolld();

    // Serves until that holds; false after a minute.
    bool serve_until(const std::function<bool()>& holds);
    // Hears and answers nothing, but its beacon may go on, until that holds.
    bool silent_until(const std::function<bool()>& holds, bool beacon_grows);

    // The last entry that a heartbeat had of it; none if the last one had none.
    std::optional<protocol::RunningAttempt> entry(const AttemptKey& key) const;
    std::string phase(const AttemptKey& key) const;

    std::vector<protocol::StartOrder> start{};  // until a heartbeat names it
    std::map<AttemptKey, protocol::StopOrder> stop{};
    std::set<AttemptKey> current{};  // to be kept
    std::map<AttemptKey, protocol::RunningAttempt> ended{};
    std::map<AttemptKey, std::vector<std::int64_t>> recorded{};
    std::vector<std::string> sessions{};  // that were heard, in order

  private:
    void beat();
    void receive();
    void answer(const std::string& peer, const protocol::Heartbeat& heartbeat);

    std::filesystem::path directory_;
    std::uint64_t incarnation_;
    std::uint64_t counter_ = 0;
    std::int64_t next_beat_ = 0;
    void* context_;
    void* socket_;
    protocol::Heartbeat last_{};
};

}  // namespace roll::agent
