// The targets of notifications: the file notify.yaml (docs/notify.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::notify {

struct Url {
    std::string host;  // without the brackets of an IPv6 address
    std::string port = "80";
    std::string path = "/";
};

// Parses "http://HOST[:PORT][/PATH]". Fails with InvalidArgument, also for https.
Result<Url> parse_url(const std::string& text);

// A target gets the events that all of its filters let through. An empty filter lets all through.
struct Target {
    std::string name;
    Url url{};                           // unless `command` is set
    std::vector<std::string> command{};  // gets the notification on its standard input
    std::string secret{};                // key of the signature; empty: none
    std::set<std::string> on{}, users{}, kinds{}, outcomes{};
    std::chrono::seconds timeout{10};
    std::chrono::seconds give_up{24 * 3600};  // a notification that failed for so long is dropped
};

// Events that `on` may name.
const std::vector<std::string>& event_names();

// Reads notify.yaml. Fails with InvalidArgument; the message names the entry.
Result<std::vector<Target>> read_targets(std::string_view text, const std::string& file);

}  // namespace roll::notify
