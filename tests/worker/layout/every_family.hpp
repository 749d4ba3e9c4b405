#pragma once

#include "common/json.hpp"

namespace roll::layout {

// Returns the config of a small model with these changes. It has the keys of all families. The
// sizes of the text model are at the top and where multimodal models have them. Vision towers are
// small.
inline Json config_of_every_family(const Json& changes) {
    Json text{{"hidden_size", 16},
              {"num_hidden_layers", 4},
              {"layer_types",
               {"linear_attention", "linear_attention", "linear_attention", "full_attention"}},
              {"linear_num_key_heads", 4},
              {"linear_num_value_heads", 8},
              {"linear_key_head_dim", 1},
              {"linear_value_head_dim", 2},
              {"linear_conv_kernel_dim", 2},
              {"num_attention_heads", 8},
              {"num_key_value_heads", 2},
              {"head_dim", 2},
              {"vocab_size", 12},
              {"intermediate_size", 8},
              {"moe_intermediate_size", 4},
              {"num_experts", 4},
              {"num_local_experts", 4},
              {"n_routed_experts", 4},
              {"num_experts_per_tok", 2},
              {"n_shared_experts", 1},
              {"n_group", 1},
              {"topk_group", 1},
              {"first_k_dense_replace", 1},
              {"shared_expert_intermediate_size", 4},
              {"decoder_sparse_step", 1},
              {"kv_lora_rank", 3},
              {"q_lora_rank", 5},
              {"qk_nope_head_dim", 2},
              {"qk_rope_head_dim", 2},
              {"v_head_dim", 3},
              {"routed_scaling_factor", 1.0},
              {"router_aux_loss_coef", 0.1},
              {"rms_norm_eps", 1e-6},
              {"use_qk_norm", true},
              {"tie_word_embeddings", true}};
    text.update(changes);
    const Json vision{{"depth", 2},
                      {"num_hidden_layers", 2},
                      {"embed_dim", 4},
                      {"hidden_size", 4},
                      {"out_hidden_size", 3},
                      {"intermediate_size", 5},
                      {"mlp_ratio", 2},
                      {"patch_size", 2},
                      {"image_size", 4},
                      {"num_position_embeddings", 3},
                      {"deepstack_visual_indexes", {0}}};
    Json config = text;
    config["text_config"] = text;
    config["vision_config"] = vision;
    config["thinker_config"] = {{"text_config", text}, {"vision_config", vision}};
    return config;
}

}  // namespace roll::layout
