// The commands of device_check. Each prints JSON lines on stdout and throws on a failure.
#pragma once

#include <cstdint>
#include <string>

#include "worker/train/comm/backend.hpp"

namespace roll::train {

// Prints {"case", "type", "what", "error", "limit"} for each value of each operator.
void check_operators(const Backend& backend, const std::string& only, bool large);

// Makes every call of a communicator that training makes, in a group of one rank, and trains a
// tiny model through it. `scratch` is a directory for the rendezvous file.
void check_communicator(const Backend& backend, const std::string& scratch);

// Trains the model of a job's document on random tokens and prints one line with its figures.
void measure_steps(const Backend& backend, const std::string& document, int steps);

// Prints a figure of a check that has no type.
void print_figure(const std::string& name, const std::string& what, double error, double limit);

}  // namespace roll::train
