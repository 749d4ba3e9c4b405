#include "common/spec/job/http.hpp"

#include <array>

#include <arpa/inet.h>
#include <fmt/format.h>

#include "common/number.hpp"

namespace roll::spec {

Result<ListenAddress> parse_listen(const std::string& text) {
    const std::size_t colon = text.rfind(':');
    ListenAddress address{.ip = text.substr(0, colon)};
    const auto port = colon == std::string::npos
                          ? std::nullopt
                          : parse_number<std::uint16_t>(text.substr(colon + 1));
    std::array<unsigned char, sizeof(in6_addr)> bytes{};
    const bool v4 = ::inet_pton(AF_INET, address.ip.c_str(), bytes.data()) == 1;
    const bool v6 = !v4 && ::inet_pton(AF_INET6, address.ip.c_str(), bytes.data()) == 1;
    if (!port || (!v4 && !v6))
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("is {}; allowed: ADDRESS:PORT, for example 127.0.0.1:8410", text));
    address.port = *port;
    std::array<unsigned char, sizeof(in6_addr)> loopback{};
    loopback.back() = 1;
    address.is_loopback = v4 ? bytes[0] == 127 : bytes == loopback;
    return address;
}

HttpConfig read_http(const Json& section) {
    HttpConfig config;
    config.listen = section.value("listen", config.listen);
    config.hosts = section.value("hosts", config.hosts);
    const Json tls = section.value("tls", Json::object());
    config.certificate = tls.value("certificate", "");
    config.key = tls.value("key", "");
    config.insecure = section.value("insecure", false);
    config.read_only = section.value("read_only", false);
    config.requests_per_second = section.value("requests_per_second", config.requests_per_second);
    return config;
}

}  // namespace roll::spec
