// What a checkpoint must hold, and what it turns out to hold: nothing is lost or taken twice.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <tl/expected.hpp>

#include "common/error.hpp"
#include "worker/convert/source.hpp"
#include "worker/formats/pickle.hpp"

namespace roll::convert {

// "a, b, c and 4 more": an error stays one line whatever the model's size.
std::string listed(const std::vector<std::string>& names);

// "model.layers.{layer}.x" matches "model.layers.12.x", and "a.{any}" all that begins with "a.".
bool matches_pattern(std::string_view pattern, std::string_view name);

// A tensor that the family names as carrying nothing.
bool is_dropped(const families::Family& family, const std::string& name);

// What the family's rules call a tensor that a HuggingFace directory names otherwise; empty:
// nothing else.
std::string other_spelling(const families::Family& family, const std::string& name);

// Names what a file of training holds beside its weights ("optimizer", "rng_state", …) among what
// is dropped: the keys of this dict that begin with none of `kept`.
void drop_run_state(Source& source, const std::string& file, const formats::Pickle& pickle,
                    formats::PickleId dict, std::initializer_list<std::string_view> kept);

// What is expected, by where it is; entries are taken out as tensors are found.
class Matcher {
  public:
    Matcher(std::vector<Stored> expected, Source& source);

    // False if nothing expects a tensor of this name here. `found_in` is the file that has it.
    Result<bool> take(const Stored& where, const std::string& found_in, const std::string& name,
                      const tensor::StridedView& view);

    // As take() of each by its own name. False: nothing expects one of them.
    Result<bool> take_all(const Stored& where, const std::vector<tensor::StridedView>& views);

    // A tensor that nothing expects anywhere.
    void add_unexpected(const std::string& file, const std::string& name);

    // Everything that was expected is there, and nothing else, as far as the source's strictness
    // wants it.
    Result<void> finish();

  private:
    struct Unexpected {
        std::string file;
        std::string name;
    };
    std::vector<Unexpected> unexpected_;
    std::vector<Stored> expected_;
    std::map<std::tuple<std::string, std::string, std::string>, std::size_t> places_;
    Source& source_;
};

// "FILE: no rule of family F names a, b", and what is missing instead.
tl::unexpected<Error> no_rule_names(const Source& source, const std::filesystem::path& file,
                                    const std::vector<std::string>& names,
                                    const std::vector<std::string>& missing);

// A tensor of the file that no rule names: an error, or dropped, by the source's strictness.
Result<void> drop_surplus(Source& source, const std::string& file, const std::string& name);

// The HuggingFace tensors of which no source tensor holds a part: Corrupt names them, or they are
// noted as absent.
Result<void> check_nothing_missing(Source& source);

}  // namespace roll::convert
