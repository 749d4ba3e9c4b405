"""lora_steps.py OUT: ten LoRA training steps of tiny models as PEFT computes them, in float64 throughout.

For each of CASES, OUT/NAME/weight is the base, a HuggingFace directory; OUT/NAME/start and OUT/NAME/trained are PEFT's
adapters before the first and after the last step, and told.safetensors has `loss` and `norm` (one number a step),
`ids` and `targets` [step, row, position], `logits` of the first step's ids with the trained adapter, and `lr_ratio`,
with which PEFT makes the optimizer of LoRA+. B does not start at 0, so that the first gradients of A are not 0.
OUT/NAME/base.json has the keys of `train.lora` for the form of the base. With a form of PACKED, the linear layers of
PEFT's base have the values that bitsandbytes gives them, and OUT/NAME/packed.safetensors has these values. The layers
themselves stay PEFT's plain ones, because those of bitsandbytes compute nothing in float64 on a CPU; check_layers()
compares both in float32, and check_inference_in_8_bits() tells how bitsandbytes differs outside of training.
"""
import json
import shutil
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / ".deps/oracle-bitsandbytes"))
import bitsandbytes
import numpy
import peft
import peft.optimizers
import torch
import transformers
from family_steps import BETAS, CLIP, DECAY, EPS, LR, ROWS, VOCAB, make_model, save
from in_type import Lift
from philox import philox
from safetensors.torch import load_file, save_file

STEPS, POSITIONS = 10, 19
# name: family, changes of the model's config, arguments of LoraConfig
CASES = {
    "llama": ("llama", {}, {"r": 4, "lora_alpha": 8, "target_modules": "all-linear"}),
    "qwen2": ("qwen2", {"tie_word_embeddings": True},
              {"r": 3, "lora_alpha": 6, "use_rslora": True, "target_modules": ["q_proj", "v_proj", "down_proj"],
               "rank_pattern": {"down_proj": 2}, "alpha_pattern": {"v_proj": 3}}),
    "qwen3": ("qwen3", {"head_dim": 24},
              {"r": 2, "lora_alpha": 5, "target_modules": ["k_proj", "o_proj", "up_proj"],
               "layers_to_transform": [1, 2], "layers_pattern": ["layers"],
               "exclude_modules": ["layers.1.self_attn.o_proj"],
               "rank_pattern": {r"layers\.2\..*k_proj": 3}, "alpha_pattern": {"2.mlp.up_proj": 7}}),
    "plus": ("llama", {}, {"r": 4, "lora_alpha": 8, "target_modules": "all-linear"}),
    "dora": ("llama", {}, {"r": 4, "lora_alpha": 8, "target_modules": "all-linear", "use_dora": True,
                           "modules_to_save": ["embed_tokens"]}),
    "drop": ("llama", {}, {"r": 3, "lora_alpha": 8, "target_modules": "all-linear", "lora_dropout": 0.2,
                           "modules_to_save": ["lm_head"]}),
    "both": ("qwen2", {"tie_word_embeddings": True},
             {"r": 2, "lora_alpha": 6, "target_modules": r"model\.layers\.[02]\..*(k|v|o|gate|down)_proj",
              "exclude_modules": r".*\.2\..*o_proj", "use_dora": True, "lora_dropout": 0.4}),
}
WIDE = ("llama", {"intermediate_size": 192}, {"r": 4, "lora_alpha": 8, "target_modules": "all-linear"})
PACKED = {"nf4": {"base": "nf4"}, "nf4-twice": {"base": "nf4", "double_quantization": True}, "int8": {"base": "int8"}}
CASES |= {name: WIDE for name in PACKED}
LR_RATIOS = {"plus": 8.0}
PLACES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
SEED = 1


class Drop(torch.nn.Module):
    """Drops the elements of the input of a module's A that worker/train/model/dropout.cpp drops."""
    step = 0

    def __init__(self, probability, layer, place):
        super().__init__()
        self.probability, self.layer, self.place = probability, layer, place

    def forward(self, x):
        if not self.training:
            return x
        numbers = numpy.arange(x.numel(), dtype=numpy.uint64) + numpy.uint64(Drop.step * x.numel())
        blocks, zeros = numbers // 4, numpy.zeros_like(numbers)
        words = numpy.stack(philox((blocks & 0xFFFFFFFF, blocks >> 32, zeros + numpy.uint64(self.layer),
                                    zeros + numpy.uint64(0xD0900000 + self.place)), (SEED, 0)))
        own = words[(numbers % 4).astype(int), numpy.arange(len(numbers))]
        kept = torch.from_numpy(own >= int(self.probability * 2**32)).view(x.shape)
        return x * kept / (1 - self.probability)


def replace_dropout(model, probability):
    for name, module in model.named_modules():
        if isinstance(module, peft.tuners.lora.Linear) and probability > 0:
            parts = name.split(".")
            layer = int(parts[parts.index("layers") + 1])
            module.lora_dropout["default"] = Drop(probability, layer, PLACES.index(parts[-1]))


def packed(weight, form):
    """Returns the float32 values of a weight that bitsandbytes has quantized and dequantized."""
    functions, weight = bitsandbytes.functional, weight.to(torch.float32)
    if form["base"] == "int8":
        return functions.int8_vectorwise_dequant(*functions.int8_vectorwise_quant(weight)[:2])
    codes, state = functions.quantize_4bit(weight, blocksize=64, quant_type="nf4")
    if "double_quantization" in form:
        # The mean in float64, as Roll computes it. Given float64, bitsandbytes selects the nearest code in PyTorch
        # instead of its kernel for CPUs, whose choice is not always the nearest.
        offset = state.absmax.double().mean().float()
        table, kernels = functions.create_dynamic_map(), torch.ops.bitsandbytes
        scales, second = kernels.quantize_blockwise((state.absmax - offset).double(), table, 256)
        state.absmax = kernels.dequantize_blockwise(scales, second, table, 256, torch.float32) + offset
    return functions.dequantize_4bit(codes, state)


def pack(base, form, out):
    linear = {name: module.weight for name, module in base.named_modules()
              if isinstance(module, torch.nn.Linear) and ".layers." in name}
    with torch._C.DisableTorchFunction(), torch.no_grad():
        torch.set_default_dtype(torch.float32)
        values = {name + ".weight": packed(weight, form) for name, weight in linear.items()}
        torch.set_default_dtype(torch.float64)
        for name, weight in linear.items():
            weight.copy_(values[name + ".weight"])
    save_file({name: value.double().contiguous() for name, value in values.items()}, out / "packed.safetensors")


def make_optimizer(model, trained, lr_ratio):
    if lr_ratio != 1:
        return peft.optimizers.create_loraplus_optimizer(
            model, torch.optim.AdamW, lr=LR, loraplus_lr_ratio=lr_ratio, loraplus_weight_decay=DECAY, betas=BETAS,
            eps=EPS, foreach=False)
    groups = [{"params": [weight for weight in trained if weight.dim() > 1], "weight_decay": DECAY},
              {"params": [weight for weight in trained if weight.dim() == 1], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS, foreach=False)


def train(model, ids, targets, told, lr_ratio):
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = make_optimizer(model, trained, lr_ratio)
    model.train()
    losses, norms = [], []
    for step in range(STEPS):
        Drop.step = step
        logits = model(ids[step], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets[step].flatten(), ignore_index=-100)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(trained, CLIP, foreach=False))
        optimizer.step()
        losses.append(loss.detach())
    told |= {"loss": torch.stack(losses), "norm": torch.stack(norms)}
    model.eval()
    with torch.no_grad():
        told["logits"] = model(ids[0], use_cache=False).logits


def nf4_layer(module):
    layer = bitsandbytes.nn.Linear4bit(module.in_features, module.out_features, bias=False, quant_type="nf4",
                                       compute_dtype=torch.float32, compress_statistics=False)
    layer.load_state_dict(module.state_dict())
    return layer.to("cpu")


def int8_layer(module, threshold=0.0):
    """Returns bitsandbytes' layer with the codes of the float32 weight. The layer itself would round it to float16."""
    layer = bitsandbytes.nn.Linear8bitLt(module.in_features, module.out_features, bias=False, has_fp16_weights=False,
                                         threshold=threshold)
    codes, scales, _ = bitsandbytes.functional.int8_vectorwise_quant(module.weight.detach())
    layer.weight = bitsandbytes.nn.Int8Params(codes, requires_grad=False, has_fp16_weights=False, CB=codes, SCB=scales)
    return layer


def check_layers(out, make_layer, kind):
    """Trains with PEFT over bitsandbytes' own layers, in float32: the losses must be those of the packed values."""
    base = transformers.AutoModelForCausalLM.from_pretrained(out / "weight", attn_implementation="eager",
                                                             dtype=torch.float32)
    for name, module in list(base.named_modules()):
        if isinstance(module, torch.nn.Linear) and ".layers." in name:
            base.set_submodule(name, make_layer(module))
    base.is_loaded_in_4bit, base.is_loaded_in_8bit = kind == "Linear4bit", kind == "Linear8bitLt"
    model = peft.PeftModel.from_pretrained(base, out / "start", is_trainable=True)
    place = model.get_submodule("base_model.model.model.layers.0.mlp.up_proj")
    assert isinstance(place, getattr(peft.tuners.lora, kind))
    told, seen = load_file(out / "told.safetensors"), {}
    train(model, told["ids"].long(), told["targets"].long(), seen, 1.0)
    torch.testing.assert_close(seen["loss"].double(), told["loss"], rtol=1e-6, atol=0)


def check_inference_in_8_bits():
    """Compares a Linear8bitLt that is not in training with the product of its weight in float32, which Roll computes.
    The layer must differ only in that it rounds each row of the inputs to 8 bits, but not the columns that have a
    number of at least the threshold."""
    generator = torch.Generator().manual_seed(2)
    module = torch.nn.Linear(192, 64, bias=False)
    x = torch.randn(32, 192, generator=generator).half().float()  # the layer rounds its inputs to float16
    x[:, 3] = 40.0
    functions = bitsandbytes.functional
    weight = packed(module.weight.detach(), {"base": "int8"})
    for threshold in (0.0, 6.0):
        kept = (x.abs() >= threshold).any(0) if threshold else torch.zeros(192, dtype=torch.bool)
        rounded = functions.int8_vectorwise_dequant(*functions.int8_vectorwise_quant((x * ~kept).half())[:2])
        expected = torch.where(kept, x, rounded) @ weight.T
        seen = int8_layer(module, threshold).eval()(x)
        torch.testing.assert_close(seen, expected, rtol=1e-3, atol=1e-3)
        off = (seen - x @ weight.T).norm() / seen.norm()
        print(f"Linear8bitLt with threshold {threshold}, not in training: {off:.1e} from Roll's product")
        assert off > 1e-3
    torch.testing.assert_close(int8_layer(module).train()(x), x @ weight.T, rtol=1e-5, atol=1e-5)


def main():
    out = Path(sys.argv[1])
    shutil.rmtree(out, ignore_errors=True)
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    torch.use_deterministic_algorithms(True)
    with Lift():
        for number, (name, (family, changes, lora)) in enumerate(CASES.items()):
            base = make_model(number, family, changes)
            save(base, out / name / "weight")
            form = PACKED.get(name, {})
            (out / name / "base.json").write_text(json.dumps(form))
            if form:
                pack(base, form, out / name)
            model = peft.get_peft_model(base, peft.LoraConfig(task_type="CAUSAL_LM", **lora))
            replace_dropout(model, lora.get("lora_dropout", 0))
            with torch.no_grad():
                for key, weight in model.named_parameters():
                    if "lora_B" in key:
                        weight.normal_(std=0.1)
            model.save_pretrained(out / name / "start")
            tokens = torch.from_numpy(numpy.random.default_rng(7).integers(0, VOCAB, (STEPS, ROWS, POSITIONS + 1)))
            ids, targets = tokens[:, :, :-1], tokens[:, :, 1:].clone()
            targets[:, 1, :5] = -100
            ratio = LR_RATIOS.get(name, 1.0)
            told = {"ids": ids, "targets": targets, "lr_ratio": torch.tensor([ratio])}
            train(model, ids, targets, told, ratio)
            model.save_pretrained(out / name / "trained")
            save_file({key: tensor.double().contiguous() for key, tensor in told.items()},
                      out / name / "told.safetensors")
    torch.set_default_dtype(torch.float32)
    check_layers(out / "nf4", nf4_layer, "Linear4bit")
    check_layers(out / "int8", int8_layer, "Linear8bitLt")
    check_inference_in_8_bits()


if __name__ == "__main__":
    main()
