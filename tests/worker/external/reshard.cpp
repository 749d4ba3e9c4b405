// reshard SRC DST TP: reads a checkpoint of any format and writes it as MCA over TP ranks. It is
// built outside Roll's tree and uses only the installed headers.
#include <cstdio>
#include <cstdlib>

#include "worker/convert/convert.hpp"
#include "worker/convert/read/open.hpp"

namespace {

int complain(const roll::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.message.c_str());
    return roll::exit_code(error.code);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) return 2;
    const auto families = roll::families::Families::load();
    if (!families) return complain(families.error());
    const auto source = roll::convert::open_source(argv[1], *families);
    if (!source) return complain(source.error());
    std::printf("%s: %s, %zu tensors\n", argv[1], source->config.model_type.c_str(),
                source->tensors.size());

    roll::convert::Request request;
    request.source = argv[1];
    request.target = argv[2];
    request.to = roll::convert::Format::Mca;
    request.layout.tp = std::atoi(argv[3]);
    request.verify = true;
    const auto report = roll::convert::convert(request, *families, {});
    if (!report) return complain(report.error());
    std::printf("%s: %zu tensors in %zu files\n", argv[2], report->tensors, report->files);
    return 0;
}
