#include "cli/app.hpp"
#include "cli/client/context.hpp"
#include "common/program_end.hpp"

int main(int argc, char** argv) {
    return roll::with_last_resort(
        "rollctl", [&] { return roll::cli::check_stdout(roll::cli::run(argc, argv)); });
}
