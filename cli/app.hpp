// Runs the command line of rollctl.
#pragma once

namespace roll::cli {

// Parses the command line and runs the command. Prints the command's error, if there is one.
// Returns the exit status.
int run(int argc, char** argv);

}  // namespace roll::cli
