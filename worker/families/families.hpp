// The known families. These are the built-in families from schemas/families, and the families in
// the directories of ROLL_FAMILIES (separated by colons). A family in ROLL_FAMILIES overrides the
// built-in family for the same model type.
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
    // Loads the family of one model type. May load other families, too. Reads ROLL_FAMILIES and
    // fails as load() does.
    static Result<Families> load_for(const std::string& model_type);

    // Returns the family that covers a model type. This object owns the family. Fails with NotFound
    // if there is no such family; the message lists the families.
    Result<const Family*> find(const std::string& model_type) const;
    const std::map<std::string, Family>& all() const { return families_; }

  private:
    std::map<std::string, Family> families_;
};

}  // namespace roll::families
