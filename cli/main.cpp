#include "cli/app.hpp"

int main(int argc, char** argv) { return roll::cli::run(argc, argv); }
