// The command line of rollctl.
#pragma once

namespace roll::cli {

// Parses, runs the command, prints its error if there is one, and returns the exit status.
int run(int argc, char** argv);

}  // namespace roll::cli
