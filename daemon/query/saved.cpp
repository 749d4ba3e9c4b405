#include "daemon/query/saved.hpp"

namespace roll::query {

Json checkpoints_json(const core::Job& job) {
    Json all = Json::array();
    for (const core::Checkpoint& c : job.checkpoints)
        all.push_back({{"step", c.step},
                       {"token", to_string(c.token)},
                       {"directory", c.directory},
                       {"asked", c.asked}});
    return all;
}

Json exports_json(const core::Job& job) {
    Json all = Json::array();
    for (const core::CheckpointExport& one : job.exports)
        all.push_back({{"step", one.step}, {"directory", one.directory}});
    return all;
}

}  // namespace roll::query
