#include "cli/app.hpp"
#include "common/last_resort.hpp"

int main(int argc, char** argv) {
    return roll::with_last_resort("rollctl", [&] { return roll::cli::run(argc, argv); });
}
