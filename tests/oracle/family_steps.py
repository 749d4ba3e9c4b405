"""family_steps.py OUT: ten training steps of tiny models as transformers computes them, in float64 throughout.

There is a model for each table of schemas/families that trains, made from the table, and those of VARIANTS. For each,
OUT/NAME/ holds three HuggingFace directories of the same model: `weight` before the first step, `trained` after the
last, and `grad`, whose tensors are the gradients of the first step; and told.safetensors: `loss` and `norm` (one number
a step), `ids` and `targets` [step, row, position] (-100 does not count), `logits` of the first step's ids before it,
`prompt` and `greedy`. OUT/NAME/true and OUT/NAME/bf16 hold the first step's gradients at the weights rounded to
bfloat16, in float64 and as transformers' bfloat16 has them (not with experts: a router of another type may choose other
experts). With experts, `balance` is the load-balancing loss of a step, as transformers computes it for one layer, / the
experts of a token; its mean over the layers, weighted by the targets of the two micro-batches. The gradients are those
of `loss` + coefficient x layers x `balance`, as in Megatron. The loss of a model of OBJECTIVES has the options of
OUT/NAME/objective.json, written from the formulas of the papers: NEFTune (arXiv:2310.05914), whose noise is drawn by
Roll's counter-based generator, z-loss (arXiv:2204.02311) and torch's label smoothing.
"""
import json
import shutil
import sys
from pathlib import Path

import numpy
import torch
import transformers
from in_type import Lift, gradients
from philox import uniform
from safetensors.torch import save_file
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

STEPS, ROWS, VOCAB = 10, 4, 256
LR, BETAS, EPS, DECAY, CLIP = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0
WINDOW = 16
BASE = {"hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": VOCAB, "max_position_embeddings": 128, "tie_word_embeddings": False,
        "rms_norm_eps": 1e-6, "initializer_range": 0.1, "bos_token_id": 1, "eos_token_id": None, "pad_token_id": None,
        "attention_dropout": 0.0}
ROPE = {"rope_theta": 10000.0, "rope_type": "default"}
LLAMA3 = ROPE | {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                 "original_max_position_embeddings": 64}
YARN = ROPE | {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
LONG = ROPE | {"rope_type": "longrope", "original_max_position_embeddings": 24,
               "short_factor": [1 + 0.1 * i for i in range(8)], "long_factor": [1 + 0.7 * i for i in range(8)]}
# Whatever of these native fields a table maps, its model has.
FIELDS = {"num_layers": 3, "hidden_size": 64, "ffn_hidden_size": 176, "num_attention_heads": 4, "num_query_groups": 2,
          "kv_channels": 24, "padded_vocab_size": VOCAB, "max_sequence_length": 128, "layernorm_epsilon": 1e-6,
          "init_method_std": 0.1, "attention_dropout": 0.0, "hidden_dropout": 0.0, "add_qkv_bias": True,
          "add_attention_output_bias": True, "use_sliding_window": True, "sliding_window": WINDOW,
          "num_moe_experts": 6, "moe_router_topk": 2, "moe_ffn_hidden_size": 40, "moe_aux_loss_coeff": 0.05,
          "query_pre_attn_scalar": 40, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}
# name: family, config, positions. Windows are seen at four times their length, and a bit.
VARIANTS = {
    "llama-tied": ("llama", {"tie_word_embeddings": True}, 19),
    "llama-bias": ("llama", {"attention_bias": True, "num_key_value_heads": 4, "head_dim": 12}, 19),
    "llama-llama3": ("llama", {"rope_parameters": LLAMA3}, 67),
    "llama-linear": ("llama", {"rope_parameters": ROPE | {"rope_type": "linear", "factor": 3.5}}, 19),
    "llama-yarn": ("llama", {"rope_parameters": YARN | {"mscale": 0.7, "mscale_all_dim": 1.3, "beta_fast": 3.0,
                                                        "beta_slow": 0.2, "truncate": False}}, 67),
    "llama-dynamic": ("llama", {"rope_parameters": ROPE | {"rope_type": "dynamic", "factor": 2.0}}, 19),
    "llama-longrope": ("llama", {"rope_parameters": LONG}, 67),
    "llama-longrope-short": ("llama", {"rope_parameters": LONG | {"factor": 3.0}}, 24),
    "qwen2-tied": ("qwen2", {"tie_word_embeddings": True}, 19),
    "qwen3-layers": ("qwen3", {"head_dim": 24, "use_sliding_window": True, "sliding_window": WINDOW,
                               "max_window_layers": 0,
                               "layer_types": ["full_attention", "sliding_attention", "full_attention"]}, 67),
    "qwen3-yarn": ("qwen3", {"head_dim": 24, "rope_parameters": YARN}, 67),
    "qwen3_moe-probs": ("qwen3_moe", {"head_dim": 24, "num_experts": 7, "num_experts_per_tok": 3,
                                      "norm_topk_prob": False, "moe_intermediate_size": 40,
                                      "router_aux_loss_coef": 0.02}, 19),
    "llama-neftune": ("llama", {}, 19),
}
OBJECTIVES = {"llama-neftune": {"kind": "sft", "neftune_alpha": 5.0, "z_loss": 0.02, "label_smoothing": 0.1}}
SEED, NEFTUNE = 1, 0xF021D3582CCE29A9  # Roll's seed, and XXH3-64 of the name "neftune"
FAMILIES = Path(__file__).resolve().parents[2] / "schemas/families"


def from_tables():
    """As VARIANTS, a model for each table that says what rotary embeddings train."""
    models = {}
    for path in sorted(FAMILIES.glob("*.json")):
        table = json.loads(path.read_text())
        if "rope_types" not in table:
            continue
        asked = {key: value for key, value in table["hf"]["defaults"].items()
                 if key not in ("architectures", "rope_theta")}
        for native, source in table["config"].items():
            keys = source["from"] if isinstance(source, dict) else source
            if native in FIELDS:
                asked[keys if isinstance(keys, str) else keys[0]] = FIELDS[native]
        asked |= {kind["from"]: 1 for kind in table.get("layers", {}).values() if "from" in kind}
        positions = 4 * WINDOW + 3 if "sliding_window" in table["config"] else 19
        models[table["family"]] = (table["hf"]["model_type"], asked, positions)
    return models


def has_experts(config):
    return hasattr(config, "num_experts_per_tok")


def make_model(number, family, asked):
    config = transformers.AutoConfig.for_model(family, **(BASE | {"rope_parameters": dict(ROPE)} | asked))
    torch.manual_seed(1 + number)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float64,
                                                          experts_implementation="eager")
    with torch.no_grad():  # norms would all be 1 and biases 0, which would hide mistakes
        for weight in model.parameters():
            if weight.ndim == 1:
                weight.add_(torch.randn_like(weight) * 0.1)
    return model.train()


def make_optimizer(model):
    weights = list(model.parameters())
    groups = [{"params": [w for w in weights if w.ndim > 1], "weight_decay": DECAY},
              {"params": [w for w in weights if w.ndim == 1], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS, foreach=False)


def save(model, out, tensors=None):
    model.save_pretrained(out, state_dict=tensors, max_shard_size="1TB")


def add_noise(embedded, step, alpha):
    """Embedding + alpha / sqrt(L d) * e, where e is uniform in (-1, 1), L is the length and d the width."""
    rows, length, width = embedded.shape
    first = step * embedded.numel()  # an element's number among all of the run
    noise = torch.from_numpy(2 * uniform(numpy.arange(first, first + embedded.numel()), SEED, NEFTUNE) - 1)
    return embedded + alpha / (length * width) ** 0.5 * noise.view(rows, length, width)


def balance_of(model, router_logits, targets):
    balance = 0
    for rows in (slice(0, 2), slice(2, 4)):
        share = (targets[rows] != -100).sum() / (targets != -100).sum()
        for logits in router_logits:
            own = logits.view(*targets.shape, -1)[rows].flatten(0, 1)
            one = load_balancing_loss_func((own,), own.shape[-1], model.config.num_experts_per_tok)
            balance = balance + share * one
    return balance / len(router_logits) / model.config.num_experts_per_tok


def loss_of(model, ids, targets, step, objective):
    """Returns the loss, the logits and, with experts, the balance."""
    inputs = {"input_ids": ids}
    if "neftune_alpha" in objective:
        embedded = model.get_input_embeddings()(ids)
        inputs = {"inputs_embeds": add_noise(embedded, step, objective["neftune_alpha"])}
    experts = {"output_router_logits": True} if has_experts(model.config) else {}
    outputs = model(**inputs, **experts, use_cache=False)
    logits = outputs.logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100,
                                             label_smoothing=objective.get("label_smoothing", 0.0))
    if "z_loss" in objective:
        loss = loss + objective["z_loss"] * logits[targets != -100].logsumexp(-1).square().mean()
    return loss, logits, balance_of(model, outputs.router_logits, targets) if experts else None


def train(model, ids, targets, objective, told, out):
    optimizer = make_optimizer(model)
    losses, norms, balances = [], [], []
    for step in range(STEPS):
        loss, logits, balance = loss_of(model, ids[step], targets[step], step, objective)
        optimizer.zero_grad(set_to_none=True)
        if balance is None:
            loss.backward()
        else:
            balances.append(balance.detach())
            factor = model.config.router_aux_loss_coef * model.config.num_hidden_layers
            (loss + factor * balance).backward()
        if step == 0:
            save(model, out / "grad", {name: weight.grad.clone() for name, weight in model.named_parameters()})
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP, foreach=False))
        optimizer.step()
        losses.append(loss.detach())
    told |= {"loss": torch.stack(losses), "norm": torch.stack(norms)}
    if balances:
        told["balance"] = torch.stack(balances)
    save(model, out / "trained")


def greedy(model, prompt, count):
    ids = prompt
    for _ in range(count):
        ids = torch.cat([ids, model(ids, use_cache=False).logits[:, -1:].argmax(-1)], dim=1)
    return ids


def compute(number, family, asked, positions, objective, out):
    model = make_model(number, family, asked)
    save(model, out / "weight")
    random = numpy.random.default_rng(7)
    tokens = torch.from_numpy(random.integers(0, VOCAB, (STEPS, ROWS, positions + 1)))
    ids, targets = tokens[:, :, :-1], tokens[:, :, 1:].clone()
    targets[:, 1, :5] = -100
    told = {"ids": ids, "targets": targets}
    with torch.no_grad():
        told |= {"prompt": ids[0, :1, :7], "greedy": greedy(model, ids[0, :1, :7], 24),
                 "logits": model(ids[0], use_cache=False).logits}
    train(model, ids, targets, objective, told, out)
    save_file({name: tensor.double().contiguous() for name, tensor in told.items()}, out / "told.safetensors")
    return None if has_experts(model.config) else (ids[0], targets[0])


def compute_narrow(out, ids, targets):
    for name, dtype in (("true", torch.float64), ("bf16", torch.bfloat16)):
        grads = gradients(out / "weight", dtype, ids, targets)[1]
        (out / name).mkdir()
        shutil.copy(out / "weight/config.json", out / name)
        save_file({key: grad.double().contiguous() for key, grad in grads.items()}, out / name / "model.safetensors",
                  {"format": "pt"})


def main():
    out = Path(sys.argv[1])
    shutil.rmtree(out, ignore_errors=True)
    torch.set_num_threads(1)  # more only wait for each other
    torch.set_default_dtype(torch.float64)
    torch.use_deterministic_algorithms(True)
    seen = {}
    with Lift():
        for number, (name, model) in enumerate((from_tables() | VARIANTS).items()):
            (out / name).mkdir(parents=True)
            objective = OBJECTIVES.get(name, {})
            (out / name / "objective.json").write_text(json.dumps(objective))
            seen[name] = compute(number, *model, objective, out / name)
    for name, first in seen.items():
        if first is not None:
            compute_narrow(out / name, *first)


if __name__ == "__main__":
    main()
