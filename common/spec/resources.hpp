// What a job asks of the nodes that it runs on.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/json_text.hpp"

namespace roll::spec {

struct Problem;

// A job's ranks are nodes x (gpus_per_node if that is not 0, else slots_per_node).
struct Resources {
    int nodes = 1;
    int slots_per_node = 1;
    int gpus_per_node = 0;
    std::chrono::seconds time{0};  // limit of one attempt; 0 is none
    int gpu_percent = 100;         // of each GPU; less only of a single one
    int segment = 0;               // so many nodes in a row share a network segment; 0: any
    int spares = 0;                // nodes beside these, held to replace one that fails
    friend auto operator<=>(const Resources&, const Resources&) = default;

    int ranks_per_node() const { return gpus_per_node > 0 ? gpus_per_node : slots_per_node; }
    int world_size() const { return nodes * ranks_per_node(); }
    // What an attempt holds in all.
    int workers() const { return nodes + spares; }
    int slots() const { return workers() * slots_per_node; }
    int gpu_hundredths() const { return workers() * gpus_per_node * gpu_percent; }
};

// `resources` of a job file that the schema has accepted and filled; its `variants`, each with what
// it leaves out as there.
Resources read_resources(const Json& resources);
std::vector<Resources> read_variants(const Json& resources);
// What the schema cannot say: a fraction of a GPU, segments that divide the nodes.
std::vector<Problem> check_resources(const Json& resources);

// The job file as if its `resources` were variant `index` (1, 2, ...) of them; 0: as they are.
Json with_variant(Json document, int index);

// Hundredths of GPUs as people write them: 2, 0.5.
Json gpus_number(std::int64_t hundredths);
std::string gpus_text(std::int64_t hundredths);

// The codec of ledger and wire.
JsonText text_of(const Resources& resources);
Result<Resources> resources_of(const Json& json);

}  // namespace roll::spec
