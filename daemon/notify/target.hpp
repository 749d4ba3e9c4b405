// The targets of notifications, which the file notify.yaml (docs/notify.md) defines.
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
    std::string host;  // host name or address; an IPv6 address is without brackets
    std::string port = "80";
    std::string path = "/";
    bool tls = false;  // true for https
};

// Parses "http://HOST[:PORT][/PATH]" or the same with https. Fails with InvalidArgument for any
// other text.
Result<Url> parse_url(const std::string& text);

// A target gets the events that pass all of its filters. An empty filter passes all events.
struct Target {
    std::string name;
    Url url{};  // address for the POST; not used if `command` is set
    // PEM file with the certificates that may sign an https server's certificate; empty: the
    // certificates that the system trusts
    std::filesystem::path ca_file{};
    std::vector<std::string> command{};  // command that gets the notification on its standard input
    std::string secret{};                // key of the signature; empty: none
    std::set<std::string> on{}, users{}, kinds{}, outcomes{};
    std::chrono::seconds timeout{10};
    // time after which a notification that cannot be delivered is dropped
    std::chrono::seconds give_up{24 * 3600};
};

// Returns the names of events that `on` may contain.
const std::vector<std::string>& event_names();

// Reads notify.yaml. Fails with InvalidArgument if an entry is wrong; the message names the entry.
Result<std::vector<Target>> read_targets(std::string_view text, const std::string& file);

}  // namespace roll::notify
