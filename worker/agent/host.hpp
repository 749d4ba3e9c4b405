// This machine: its name, cores and GPUs.
#pragma once

#include <string>

namespace roll::agent {

std::string host_name();
int cores();  // that this process may use

// By NVML, opened at run time. 0 without it, without a driver or without GPUs.
int count_gpus();

// 128 random bits in hex: names this process among all that ever ran.
std::string draw_session();

}  // namespace roll::agent
