// Unicode normal form C (NFC) for the characters of Unicode 9, as in the tokenizers package.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace roll::tokenizer {

// Converts text to form C. Immutable after construction; any thread may use it.
class Composer {
  public:
    static const Composer& get();

    // Returns the text in form C. `text` must be valid UTF-8.
    std::string compose(std::string_view text) const;

  private:
    Composer();
    void decompose(char32_t code, std::vector<char32_t>& out) const;
    // Returns the composition of two characters; 0 if they do not compose.
    char32_t pair(char32_t first, char32_t second) const;

    struct Parts {
        char32_t first = 0;
        // second character of the decomposition; 0 if the decomposition is only `first`
        char32_t second = 0;
    };
    std::unordered_map<char32_t, Parts> parts_;
    // composed characters by the pair of their parts; the key is first << 32 | second
    std::unordered_map<std::uint64_t, char32_t> composites_;
    // canonical combining class by character; characters that are absent have class 0
    std::unordered_map<char32_t, std::uint8_t> classes_;
};

}  // namespace roll::tokenizer
