// Checks the certificates of https servers.
#pragma once

#include <string>

#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/tcp_stream.hpp>

#include "common/error.hpp"
#include "daemon/notify/target.hpp"

namespace roll::notify {

using TlsStream = boost::asio::ssl::stream<boost::beast::tcp_stream&>;

// Lets the context accept only servers whose certificate is signed by the target's `ca_file`, or by
// an authority that the system trusts. Allows TLS 1.2 and later. Fails if the file is unreadable.
Result<void> trust(boost::asio::ssl::context& context, const Target& target);

// Lets the handshake fail if the server's certificate is not for this host name or address. Returns
// false if OpenSSL refuses the name.
bool expect_host(TlsStream& stream, const std::string& host);

// Returns why the server's certificate was refused, as a sentence; nullptr if it was accepted.
const char* refusal_of(const TlsStream& stream);

}  // namespace roll::notify
