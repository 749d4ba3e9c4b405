// A small rolld that gives orders to a real roll-worker. It has one ROUTER socket with CURVE and a
// beacon, and repeats its orders until they are obeyed.
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
    // Sets up keys, endpoint and beacon in a state directory.
    FakeRolld(const std::filesystem::path& directory, std::uint64_t incarnation);
    FakeRolld(const FakeRolld&) = delete;
    FakeRolld& operator=(const FakeRolld&) = delete;
    ~FakeRolld();

    // Serves until `holds` returns true. Returns false after a minute.
    bool serve_until(const std::function<bool()>& holds);
    // Receives and answers nothing until `holds` returns true. The beacon keeps counting if
    // `beacon_grows`.
    bool silent_until(const std::function<bool()>& holds, bool beacon_grows);

    // Returns the attempt's entry in the last heartbeat; nullopt if it had none.
    std::optional<protocol::RunningAttempt> entry(const AttemptKey& key) const;
    std::optional<protocol::Phase> phase(const AttemptKey& key) const;

    // start orders, each repeated until a heartbeat names its attempt
    std::vector<protocol::StartOrder> start{};
    std::map<AttemptKey, protocol::StopOrder> stop{};
    // attempts that are current; each answer tells the worker to keep them
    std::set<AttemptKey> current{};
    std::map<AttemptKey, protocol::RunningAttempt> ended{};
    std::map<AttemptKey, std::vector<std::int64_t>> recorded{};
    // returns the bytes of a piece of a job's files that the worker asks for
    std::function<std::string(const std::string&)> piece{};
    // with `refused`, answers refuse the worker and have no orders
    std::string refused{};
    bool keep_asking = false;
    int confirmed = 0;                    // number of heartbeats that confirmed an answer
    std::vector<std::string> sessions{};  // sessions of the workers that sent heartbeats, in order

  private:
    void beat();
    void receive();
    void answer(const std::string& peer, const protocol::Heartbeat& heartbeat);
    void send(const std::string& peer, const std::string& frame);

    std::filesystem::path directory_;
    std::uint64_t incarnation_;
    std::uint64_t counter_ = 0;
    std::int64_t next_beat_ = 0;
    void* context_;
    void* socket_;
    protocol::Heartbeat last_{};
};

}  // namespace roll::agent
