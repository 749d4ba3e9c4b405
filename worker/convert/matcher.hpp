// Matches the tensors that a checkpoint must hold with those it has. None is lost or taken twice.
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

// Returns "a, b, c and 4 more", so that an error stays one line for any model.
std::string listed(const std::vector<std::string>& names);

// "model.layers.{layer}.x" matches "model.layers.12.x"; "a.{any}" matches all names that begin with
// "a.".
bool matches_pattern(std::string_view pattern, std::string_view name);

// True if the family lists the tensor as one to drop.
bool is_dropped(const families::Family& family, const std::string& name);

// Translates a tensor's name in a HuggingFace directory to the name in the family's rules. Empty if
// no other spelling applies.
std::string other_spelling(const families::Family& family, const std::string& name);

// Adds the keys of `dict` that begin with none of `kept` to source.dropped: a training file also
// holds "optimizer", "rng_state", ....
void drop_run_state(Source& source, const std::string& file, const formats::Pickle& pickle,
                    formats::PickleId dict, std::initializer_list<std::string_view> kept);

// The expected tensors by place; each is removed once found.
class Matcher {
  public:
    Matcher(std::vector<Stored> expected, Source& source);

    // Returns false if no tensor of this name is expected here. `found_in` is the file that has it.
    Result<bool> take(const Stored& where, const std::string& found_in, const std::string& name,
                      const tensor::StridedView& view);

    // Calls take() for each view by its own name. Returns false if one of them is not expected.
    Result<bool> take_all(const Stored& where, const std::vector<tensor::StridedView>& views);

    // Records a tensor that is not expected anywhere.
    void add_unexpected(const std::string& file, const std::string& name);

    // Checks that every expected tensor was found and no other, as the source's strictness asks.
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

// Returns the error "FILE: no rule of family F names a, b", followed by the missing tensors.
tl::unexpected<Error> no_rule_names(const Source& source, const std::filesystem::path& file,
                                    const std::vector<std::string>& names,
                                    const std::vector<std::string>& missing);

// Handles a tensor that no rule names: fails or drops it, as the source's strictness says.
Result<void> drop_surplus(Source& source, const std::string& file, const std::string& name);

// Finds HuggingFace tensors of which no source tensor holds a part. Fails with Corrupt and their
// names, or records them as absent, as the strictness says.
Result<void> check_nothing_missing(Source& source);

}  // namespace roll::convert
