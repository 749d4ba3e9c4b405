// Tests which process writes which file of a target.
#include "worker/convert/write/parts.hpp"

#include <gtest/gtest.h>

namespace roll::convert {
namespace {

Plan plan_of(const std::vector<std::int64_t>& sizes) {
    Plan plan;
    for (std::size_t file = 0; file < sizes.size(); ++file) {
        plan.files.emplace_back();
        TargetTensor tensor;
        tensor.file = file;
        tensor.info = {"t", tensor::DType::F32, {sizes[file]}};
        plan.tensors.push_back(tensor);
    }
    return plan;
}

TEST(Parts, EachFileIsOnesAndTheLargestShareIsSmall) {
    const std::vector<std::int64_t> sizes{5, 1, 9, 4, 4, 3, 0, 7};
    const Plan plan = plan_of(sizes);
    for (int count = 1; count <= 10; ++count) {
        std::vector<int> owners(sizes.size(), 0);
        std::int64_t largest = 0;
        for (int index = 0; index < count; ++index) {
            const std::vector<bool> own = own_files(plan, {index, count, "run"});
            std::int64_t share = 0;
            for (std::size_t file = 0; file < sizes.size(); ++file) {
                owners[file] += own[file] ? 1 : 0;
                share += own[file] ? sizes[file] : 0;
            }
            largest = std::max(largest, share);
        }
        EXPECT_EQ(owners, std::vector<int>(sizes.size(), 1));
        EXPECT_LE(largest, std::max<std::int64_t>(9, 33 / count + 4)) << count;
    }
}

}  // namespace
}  // namespace roll::convert
