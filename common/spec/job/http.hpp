// The section `http` of rolld.yaml: how roll-web serves the dashboard (docs/web.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::spec {

struct HttpConfig {
    std::string listen = "127.0.0.1:8410";  // ADDRESS:PORT; port 0: any free port
    std::vector<std::string> hosts{};       // additional host names that requests may use
    std::string certificate{}, key{};       // PEM files; empty: no TLS
    bool insecure = false;                  // serve other machines without TLS
    bool read_only = false;                 // refuse all changes
    // Maximum number of requests per second for each pair of a token and a client's address, and
    // for each client's address without a valid token.
    int requests_per_second = 1000;
};

struct ListenAddress {
    std::string ip{};
    std::uint16_t port = 0;
    bool is_loopback = false;  // true: only this machine can reach the address
};

// Parses ADDRESS:PORT. Fails with InvalidArgument. The message has the form "is ...; allowed: ...".
Result<ListenAddress> parse_listen(const std::string& text);

// Reads the section, which has passed the schema's check.
HttpConfig read_http(const Json& section);

}  // namespace roll::spec
