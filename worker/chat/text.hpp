// Python's string operations for UTF-8. Indices and lengths count characters (code points). All
// strings must be valid UTF-8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace roll::chat {

// Returns the size of the first character in bytes. `text` must not be empty.
std::size_t character_size(std::string_view text);
std::size_t characters(std::string_view text);
// Returns the byte offset of the character with index `character`; text.size() if there is no such
// character.
std::size_t offset_of(std::string_view text, std::size_t character);
char32_t first_character(std::string_view text);
bool is_space(char32_t character);
bool is_utf8(std::string_view text);

enum class Side { Left, Right, Both };
// Removes whitespace, or the characters in `chars`, from the given sides.
std::string_view strip(std::string_view text, Side side,
                       std::optional<std::string_view> chars = std::nullopt);

// Splits at `separator` or, if it is nullopt, at runs of whitespace. Makes at most `most` splits
// (-1: no limit). If `from_right`, counts the splits from the end of the string.
std::vector<std::string_view> split(std::string_view text,
                                    std::optional<std::string_view> separator, std::int64_t most,
                                    bool from_right);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);
std::string replaced(std::string_view text, std::string_view from, std::string_view to,
                     std::int64_t most);

std::string lower(std::string_view text);
std::string upper(std::string_view text);
std::string capitalized(std::string_view text);
std::string titled(std::string_view text);  // like Python's str.title()

// Return true if the string is not empty and all its characters belong to the named class.
bool all_digits(std::string_view text);
bool all_letters(std::string_view text);
bool all_spaces(std::string_view text);
bool all_letters_or_digits(std::string_view text);
// Return true if the string has cased characters and all of them are lower (upper) case.
bool is_lower(std::string_view text);
bool is_upper(std::string_view text);

}  // namespace roll::chat
