// CURVE key pairs in a state directory. NAME.key contains the secret key (mode 0600), NAME.pub the
// public key, each as 40 characters of Z85 and a newline.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "common/error.hpp"

namespace roll::io {

struct CurveKeys {
    std::string public_key;  // 40 characters in the encoding Z85
    std::string secret_key;  // 40 characters in the encoding Z85
};

CurveKeys make_curve_keys();

// Loads a pair. Fails with NotFound if the pair does not exist, with Refused if other users can
// access the secret key, and with Corrupt if the file contains no key.
Result<CurveKeys> load_curve_keys(const std::filesystem::path& directory, const std::string& name);
Result<std::string> load_public_key(const std::filesystem::path& file);

// Loads a pair, or creates the pair if it does not exist. Concurrent calls get the same pair. If
// this call creates the pair and `authorized` is given, the call also writes the public key to the
// directory `authorized`. A public key that the user later removes from this directory is not added
// again.
Result<CurveKeys> load_or_make_curve_keys(const std::filesystem::path& directory,
                                          const std::string& name,
                                          const std::filesystem::path& authorized = {});

// Returns the authorized keys. Maps the public key in each file NAME.pub of the directory to NAME.
// Ignores files without a key. Returns an empty map if the directory cannot be read.
std::map<std::string, std::string> read_authorized(const std::filesystem::path& directory);

}  // namespace roll::io
