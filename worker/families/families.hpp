// The families that this program knows: those of schemas/families, built in, and those of the
// directories of ROLL_FAMILIES (colon-separated), which win over built-in ones of the same name.
#pragma once

#include <map>
#include <string>

#include "common/error.hpp"
#include "worker/families/family.hpp"

namespace roll::families {

class Families {
  public:
    // Reads ROLL_FAMILIES from the environment. InvalidArgument names the file that is wrong.
    static Result<Families> load();
    // The same for who wants this one only, without reading the others where that will do.
    static Result<Families> load_for(const std::string& model_type);

    // By HuggingFace model_type. NotFound lists what there is.
    Result<const Family*> find(const std::string& model_type) const;
    const std::map<std::string, Family>& all() const { return families_; }

  private:
    std::map<std::string, Family> families_;
};

}  // namespace roll::families
