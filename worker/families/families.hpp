// The known families: the built-in ones from schemas/families, and those in the directories of
// ROLL_FAMILIES (colon-separated), which override built-in ones with the same name.
#pragma once

#include <map>
#include <string>

#include "common/error.hpp"
#include "worker/families/family.hpp"

namespace roll::families {

class Families {
  public:
    // Reads ROLL_FAMILIES from the environment. Fails with InvalidArgument and the invalid file.
    static Result<Families> load();
    // Loads the family of one model type; without ROLL_FAMILIES reads no other files.
    static Result<Families> load_for(const std::string& model_type);

    // Fails with NotFound and the list of families.
    Result<const Family*> find(const std::string& model_type) const;
    const std::map<std::string, Family>& all() const { return families_; }

  private:
    std::map<std::string, Family> families_;
};

}  // namespace roll::families
