// The known families: the built-in ones from schemas/families, and the ones in the directories of
// ROLL_FAMILIES (separated by colons). A family of ROLL_FAMILIES overrides the built-in one with
// the same name.
#pragma once

#include <map>
#include <string>

#include "common/error.hpp"
#include "worker/families/family.hpp"

namespace roll::families {

class Families {
  public:
    // Loads all families. Reads ROLL_FAMILIES from the environment. Fails with InvalidArgument if a
    // file is invalid; the message names the file.
    static Result<Families> load();
    // Loads only the family of one model type. Reads other families' files only if ROLL_FAMILIES is
    // set.
    static Result<Families> load_for(const std::string& model_type);

    // Returns the family that covers a model type. Fails with NotFound if there is none; the
    // message lists the families.
    Result<const Family*> find(const std::string& model_type) const;
    const std::map<std::string, Family>& all() const { return families_; }

  private:
    std::map<std::string, Family> families_;
};

}  // namespace roll::families
