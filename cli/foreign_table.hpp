// The content of the tables in schemas/foreign. The tables are compiled into the program.
#pragma once

#include "common/json.hpp"

namespace roll::cli {

const OrderedJson& foreign_table();   // trainer.json
const OrderedJson& pipeline_table();  // pipeline.json
const OrderedJson& sbatch_table();    // sbatch.json

}  // namespace roll::cli
