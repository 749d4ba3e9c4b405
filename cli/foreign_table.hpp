// The content of schemas/foreign/trainer.json, which is part of the program.
#pragma once

#include "common/json.hpp"

namespace roll::cli {

const OrderedJson& foreign_table();

}  // namespace roll::cli
