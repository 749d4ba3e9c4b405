#include "common/pattern.hpp"

#include <boost/regex.hpp>

namespace roll {

struct Pattern::Compiled {
    boost::regex regex;
};

Result<Pattern> Pattern::make(std::string_view text) {
    try {
        return Pattern(std::make_shared<Compiled>(
            Compiled{boost::regex(text.begin(), text.end(), boost::regex::perl)}));
    } catch (const boost::regex_error& e) {
        return fail(ErrorCode::InvalidArgument, std::string(e.what()));
    }
}

bool Pattern::occurs_in(std::string_view line) const {
    try {
        return boost::regex_search(line.begin(), line.end(), compiled_->regex);
    } catch (const std::runtime_error&) {  // thrown by Boost if the match is too complex
        return false;
    }
}

}  // namespace roll
