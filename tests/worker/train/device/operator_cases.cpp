// The cases of products, norms, activations, embedding, loss and optimizer. Sizes are odd, one row,
// or empty; weights begin at odd elements, as in a model's flat tensors.
#include <array>
#include <initializer_list>
#include <utility>

#include "tests/worker/train/device/attention_cases.hpp"
#include "tests/worker/train/device/trial.hpp"
#include "worker/train/ops/cross_entropy.hpp"
#include "worker/train/ops/embedding.hpp"
#include "worker/train/ops/linear.hpp"
#include "worker/train/ops/packed.hpp"
#include "worker/train/ops/qk_norm.hpp"
#include "worker/train/ops/rms_norm.hpp"
#include "worker/train/ops/swiglu.hpp"
#include "worker/train/optim/gradient_sums.hpp"
#include "worker/train/optim/optimizer.hpp"

namespace roll::ops {
namespace {

using Size = std::int64_t;

std::string sized(const char* what, std::initializer_list<Size> sizes) {
    std::string text = what;
    for (const Size size : sizes)
        text += (size == *sizes.begin() ? " " : "x") + std::to_string(size);
    return text;
}

// Multiplies matrices in all four orders of memory, whole and as parts of larger ones.
void matmul_case(Trial& t) {
    for (const auto& [M, K, N] : {std::array<Size, 3>{1, 1, 1},
                                  {1, 64, 48},
                                  {33, 2, 1},
                                  {71, 130, 113},
                                  {64, 1027, 50},
                                  {0, 16, 8},
                                  {16, 0, 8}}) {
        for (const int order : {0, 1, 2, 3}) {
            const auto made = [&](Size rows, Size columns, bool turned) {
                const at::Tensor x = turned ? t.random({columns, rows}) : t.random({rows, columns});
                return turned ? std::pair{x.t(), t.part(x).t()} : std::pair{x, t.part(x)};
            };
            const auto [a, a_there] = made(M, K, order % 2 == 1);
            const auto [b, b_there] = made(K, N, order >= 2);
            const at::Tensor start = t.random({M, N}), exact = a.mm(b);
            const at::Tensor out = t.part(start);
            matmul(out, a_there, b_there, 0);
            t.compare(sized("product", {M, K, N}), out, exact);
            const at::Tensor sum = t.there(start);
            matmul(sum, a_there, b_there, 1);
            t.compare(sized("product added", {M, K, N}), sum, exact + start);
        }
    }
    const at::Tensor a = t.random({70, 90}), b = t.random({90, 120});
    const at::Tensor whole = t.there(at::zeros({80, 110}, at::kDouble));
    matmul(whole.narrow(0, 2, 65).narrow(1, 5, 101), t.there(a).narrow(0, 1, 65).narrow(1, 3, 64),
           t.there(b).narrow(0, 3, 64).narrow(1, 1, 101), 0);
    at::Tensor exact = at::zeros({80, 110}, at::kDouble);
    exact.narrow(0, 2, 65).narrow(1, 5, 101).copy_(
        a.narrow(0, 1, 65).narrow(1, 3, 64).mm(b.narrow(0, 3, 64).narrow(1, 1, 101)));
    t.compare("product of parts", whole, exact);
}

void linear_case(Trial& t) {
    for (const auto& [M, I, O] :
         {std::array<Size, 3>{1, 8, 8}, {1, 63, 17}, {71, 64, 130}, {37, 129, 65}, {0, 16, 8}}) {
        const at::Tensor x = t.random({M, I}), w = t.random({O, I}), bias = t.random({O}),
                         dy = t.random({M, O}), residual = t.random({M, O});
        const at::Tensor w_there = t.part(w), x_there = t.there(x), dy_there = t.there(dy);
        const at::Tensor y = x.mm(w.t());
        t.compare(sized("y", {M, I, O}), ops::linear(x_there, w_there), y);
        t.compare(sized("y with bias", {M, I, O}), ops::linear(x_there, w_there, t.part(bias)),
                  y + bias);
        t.compare(sized("y with residual", {M, I, O}),
                  linear_add(t.there(residual), x_there, w_there), y + residual);
        t.compare(sized("dx", {M, I, O}), linear_backward_input(dy_there, w_there), dy.mm(w));
        for (const at::ScalarType main : {t.type(), at::kFloat}) {
            const at::Tensor start = t.random({O, I}), start_bias = t.random({O});
            for (const Sum sum : {Sum::Replace, Sum::Add}) {
                const bool adds = sum == Sum::Add;
                const at::Tensor dw = t.part(start, main), dbias = t.part(start_bias, main);
                linear_backward_weight(dy_there, x_there, dw, sum);
                linear_backward_bias(dy_there, dbias, sum);
                t.compare(sized("dw", {M, I, O}), dw, dy.t().mm(x) + (adds ? start : 0 * start));
                t.compare(sized("dbias", {M, I, O}), dbias,
                          dy.sum(0) + (adds ? start_bias : 0 * start_bias));
            }
        }
    }
}

void rms_norm_case(Trial& t) {
    for (const auto& [M, C] : {std::array<Size, 2>{71, 64}, {1, 8}, {1, 67}, {130, 129}, {0, 16}}) {
        for (const at::ScalarType weight : {t.type(), at::kFloat}) {  // 1 + weight is float32
            const at::Tensor x = t.random({M, C}), w = t.random({C}), dy = t.random({M, C}),
                             past = t.random({M, C});
            RmsNormSaved found, exact;
            const at::Tensor w_there = t.part(w, weight);
            t.compare(sized("y", {M, C}), rms_norm(t.there(x), w_there, 1e-5, found),
                      rms_norm(x, w, 1e-5, exact));
            for (const bool with_past : {false, true}) {
                const at::Tensor dw_there = at::empty_like(w_there), dw = at::empty_like(w);
                const at::Tensor dx =
                    rms_norm_backward(t.there(dy), w_there, found,
                                      with_past ? t.there(past) : at::Tensor(), dw_there);
                t.compare(sized("dx", {M, C}), dx,
                          rms_norm_backward(dy, w, exact, with_past ? past : at::Tensor(), dw));
                t.compare(sized("dw", {M, C}), dw_there, dw);
            }
        }
    }
}

void qk_norm_case(Trial& t) {
    for (const auto& [M, H, G, D] :
         {std::array<Size, 4>{37, 6, 2, 10}, {1, 4, 4, 16}, {5, 4, 1, 64}}) {
        const at::Tensor x = t.random({M, (H + 2 * G) * D}), dy = t.random({M, (H + 2 * G) * D}),
                         q = t.random({D}), k = t.random({D});
        QkNormSaved found, exact;
        const at::Tensor q_there = t.part(q), k_there = t.part(k);
        t.compare(sized("y", {M, H, G, D}), qk_norm(t.there(x), q_there, k_there, G, 1e-6, found),
                  qk_norm(x, q, k, G, 1e-6, exact));
        const at::Tensor dq_there = at::empty_like(q_there), dk_there = at::empty_like(k_there),
                         dq = at::empty_like(q), dk = at::empty_like(k);
        const at::Tensor dx =
            qk_norm_backward(t.there(dy), q_there, k_there, G, found, dq_there, dk_there);
        t.compare(sized("dx", {M, H, G, D}), dx, qk_norm_backward(dy, q, k, G, exact, dq, dk));
        t.compare(sized("dq", {M, H, G, D}), dq_there, dq);
        t.compare(sized("dk", {M, H, G, D}), dk_there, dk);
    }
}

void activation_case(Trial& t) {
    for (const auto& [M, I] : {std::array<Size, 2>{17, 29}, {1, 8}, {5, 1}, {64, 130}, {0, 16}}) {
        const at::Tensor x = 3 * t.random({M, 2 * I}), da = t.random({M, I});
        const at::Tensor x_there = t.there(x), rounded = x_there.cpu().to(at::kDouble);
        SwigluSaved found, exact;
        t.compare(sized("swiglu", {M, I}), swiglu(x_there, found), swiglu(rounded, exact));
        at::Tensor again, again_exact;
        t.compare(sized("swiglu dx", {M, I}), swiglu_backward(t.there(da), found, again),
                  swiglu_backward(da, exact, again_exact));
        t.compare(sized("swiglu again", {M, I}), again, again_exact);
        t.compare(sized("geglu", {M, I}), geglu(x_there), geglu(rounded));
        t.compare(sized("geglu dx", {M, I}), geglu_backward(t.there(da), x_there),
                  geglu_backward(da, rounded));
    }
}

void embedding_case(Trial& t) {
    for (const auto& [M, V, C] :
         {std::array<Size, 3>{41, 96, 33}, {1, 5, 8}, {300, 3, 7}, {0, 5, 8}}) {
        const at::Tensor w = t.random({V, C}), dy = t.random({M, C}), tokens = at::randint(V, {M});
        const at::Tensor tokens_there = tokens.to(t.device());
        t.compare(sized("y", {M, V, C}), ops::embedding(tokens_there, t.part(w)),
                  ops::embedding(tokens, w));
        for (const at::ScalarType main : {t.type(), at::kFloat}) {
            for (const Sum sum : {Sum::Replace, Sum::Add}) {
                const at::Tensor dw_there = t.part(w, main), dw = w.clone();
                embedding_backward_weight(t.there(dy), tokens_there, dw_there, sum);
                embedding_backward_weight(dy, tokens, dw, sum);
                t.compare(sized(main == at::kFloat ? "dw in fp32" : "dw", {M, V, C}), dw_there, dw,
                          1e-5, main == at::kFloat ? 1e-5 : 2e-2);
            }
        }
    }
}

void compare_loss(Trial& t, const std::string& what, const at::Tensor& x, const at::Tensor& w,
                  const at::Tensor& targets, double soft_cap) {
    const at::Tensor x_there = t.there(x), w_there = t.part(w),
                     targets_there = targets.to(t.device());
    for (const at::ScalarType main : {t.type(), at::kFloat}) {
        const at::Tensor dw_there = t.part(0 * w, main), dw = at::zeros_like(w);
        CrossEntropySaved found, exact;
        const at::Tensor loss = linear_cross_entropy(x_there, {w_there, soft_cap}, targets_there,
                                                     0.7, {dw_there, Sum::Replace}, found);
        t.compare(what + " loss", loss,
                  linear_cross_entropy(x, {w, soft_cap}, targets, 0.7, {dw, Sum::Replace}, exact));
        t.compare(what + " dx", found.dx_MC, exact.dx_MC, 5e-5, 3e-2);
        t.compare(what + " dw", dw_there, dw, 5e-5, 3e-2);
    }
    t.compare(what + " value",
              linear_cross_entropy_value(x_there, {w_there, soft_cap}, targets_there),
              linear_cross_entropy_value(x, {w, soft_cap}, targets));
    t.compare(what + " logits", logits(x_there, {w_there, soft_cap}), logits(x, {w, soft_cap}));
}

void loss_case(Trial& t) {
    const auto made = [](Size rows, Size vocab) {
        at::Tensor targets = at::randint(vocab, {rows});
        if (rows > 3) targets.index_put_({at::tensor({3, 0})}, at::tensor(kIgnored));
        return targets;
    };
    for (const auto& [M, C, V] : {std::array<Size, 3>{41, 33, 211}, {1, 8, 7}, {5, 3, 1}})
        for (const double soft_cap : {0.0, 1.5})
            compare_loss(t, sized(soft_cap > 0 ? "capped" : "plain", {M, C, V}), t.random({M, C}),
                         t.random({V, C}), made(M, V), soft_cap);
    compare_loss(t, "all ignored", t.random({7, 16}), t.random({9, 16}), at::full({7}, kIgnored),
                 0);
    // Several blocks of logits: 64 MiB each.
    if (t.large())
        compare_loss(t, "several blocks", t.random({180, 5}), t.random({200'003, 5}),
                     made(180, 200'003), 0);
}

void packed_case(Trial& t) {
    using spec::LoraBase;
    for (const auto& [what, form] :
         {std::pair{"int8", spec::PackedForm{LoraBase::Int8, false, 0, 333}},
          {"nf4", {LoraBase::Nf4, false, 0, 333}},
          {"nf4, packed scales", {LoraBase::Nf4, true, 0, 333}},
          {"nf4, columns", {LoraBase::Nf4, true, 65, 100}}}) {
        const at::Tensor bytes = packed(form, t.random({37, 333}), {1, {37}});
        t.compare(what, unpacked(form, bytes.to(t.device()), t.type()),
                  unpacked(form, bytes, at::kDouble));
    }
}

// Updates with float32 main weights, whatever the type of the weights is. `error` is the limit of
// the weights' error.
void update_case(Trial& t, const spec::OptimizerSpec& options, double error) {
    using namespace train;
    const std::vector<ParameterSpec> specs = {{.name = "bias", .sizes = {29}},
                                              {.name = "matrix", .sizes = {37, 13}},
                                              {.name = "one", .sizes = {1}}};
    Parameters found =
                   make_parameters(specs, {.dtype = t.type(), .device = t.device(), .draw = false}),
               exact = make_parameters(specs, {.dtype = at::kDouble, .draw = false});
    for (std::size_t i = 0; i < specs.size(); ++i) {
        const at::Tensor start = at::randn(specs[i].sizes, at::kFloat);
        const at::Tensor to = main_to_write(found, i);
        to.copy_(start);
        set_main(found, i, to);
        set_main(exact, i, start.to(at::kDouble));
    }
    Optimizer moved(found, options), moved_exact(exact, options);
    for (int step = 0; step < 3; ++step) {
        for (std::size_t i = 0; i < specs.size(); ++i) {
            const at::Tensor grad = at::randn(specs[i].sizes, at::kFloat);
            found.grad[i].copy_(grad);
            exact.grad[i].copy_(grad);
        }
        t.compare("square sum", square_sum(found.flat_grad), square_sum(exact.flat_grad), 1e-6,
                  1e-6);
        t.compare("zero count", zero_count(found.flat_grad), zero_count(exact.flat_grad), 0, 0);
        moved.step(0.05, 0.5);
        moved_exact.step(0.05, 0.5);
    }
    for (std::size_t i = 0; i < specs.size(); ++i) {
        const at::Tensor main = at::empty(specs[i].sizes, at::kFloat);
        copy_main(found, i, main);
        t.compare("main weights", main, exact.main[i], 1e-5, error);
        t.compare("weights", found.weight[i], exact.main[i], 1e-5, std::max(error, 4e-3));
        for (std::size_t k = 0; k < moved.state().kinds.size(); ++k)
            if (const StateTensors& kind = moved.state().kinds[k]; kind.of[i].defined())
                t.compare("state", kind.of[i], moved_exact.state().kinds[k].of[i], 1e-5, 1e-5);
    }
}

void optimizer_case(Trial& t) {
    using enum spec::OptimizerKind;
    for (const auto& [name, kind] : spec::kOptimizerKinds) {
        // Its states are rounded stochastically: in float64, some round to the other neighbour.
        if (kind == AdamWBf16) continue;
        const bool has_momentum = kind == Sgd || kind == Muon;
        // Muon's iterations are in bfloat16 on a GPU
        update_case(t,
                    {.weight_decay = 0.2,
                     .decays = {},
                     .kind = kind,
                     .momentum = has_momentum ? 0.9 : 0,
                     .nesterov = has_momentum},
                    kind == Muon ? 2e-2 : 1e-5);
    }
}

}  // namespace

std::vector<OperatorCase> operator_cases() {
    return {
        {"matmul", matmul_case},       {"linear", linear_case},     {"embedding", embedding_case},
        {"rms_norm", rms_norm_case},   {"qk_norm", qk_norm_case},   {"rope", rope_case},
        {"attention", attention_case}, {"segments", segments_case}, {"activation", activation_case},
        {"loss", loss_case},           {"packed", packed_case},     {"optimizer", optimizer_case}};
}

}  // namespace roll::ops
