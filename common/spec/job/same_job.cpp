#include "common/spec/job/same_job.hpp"

#include "common/json.hpp"

namespace roll::spec {
namespace {

std::string without_git(const std::string& text) {
    auto document = parse_json(text);
    if (!document || !document->is_object()) return text;
    document->erase("git");
    return document->dump();
}

}  // namespace

bool same_job(const JobSpec& a, const JobSpec& b) {
    if (a == b) return true;
    const std::string mine = a.document.text(), other = b.document.text();
    if (mine == other || without_git(mine) != without_git(other)) return false;
    JobSpec copy = a;
    copy.document = other;
    return copy == b;
}

}  // namespace roll::spec
