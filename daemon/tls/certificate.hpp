// The certificate with which roll-web serves TLS. It is read again when its files change, so that a
// renewed certificate needs no restart.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include <boost/asio/ssl/context.hpp>

#include "common/error.hpp"

namespace roll::tls {

// Not thread-safe.
class Certificate {
  public:
    // Reads a certificate with its chain and the key, both in PEM. Fails with InvalidArgument if
    // they are unusable, for example because the certificate has expired or the key belongs to
    // another certificate. Fails with Refused if other users may read the key.
    static Result<Certificate> read(const std::filesystem::path& certificate,
                                    const std::filesystem::path& key);

    // Returns the context for a new connection. Looks at most once a second for changed files.
    // Keeps the earlier certificate, and logs the error, if the new one is unusable.
    std::shared_ptr<boost::asio::ssl::context> context();
    // Reads the files again.
    void reload();

  private:
    using Clock = std::chrono::steady_clock;
    Certificate(std::filesystem::path certificate, std::filesystem::path key)
        : certificate_(std::move(certificate)),
          key_(std::move(key)) {}

    std::string stamp() const;
    Result<void> read_files();

    std::filesystem::path certificate_, key_;
    std::shared_ptr<boost::asio::ssl::context> context_{};
    std::string stamp_{};  // identifies the content that was read last
    Clock::time_point looked_{};
};

}  // namespace roll::tls
