"""transformers in one type throughout, and its gradients."""
import os
from contextlib import nullcontext

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", HF_HUB_DISABLE_PROGRESS_BARS="1")
import torch
import transformers
from torch.overrides import TorchFunctionMode


class Lift(TorchFunctionMode):
    """transformers computes norms, softmax and angles in float32 whatever the model's type: not here."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.float:
            return args[0].double()
        lifted = lambda value: torch.float64 if value is torch.float32 else value
        return function(*map(lifted, args), **{key: lifted(value) for key, value in (kwargs or {}).items()})


def gradients(start, dtype, inputs, targets):
    """(loss, {HuggingFace name: gradient}) of the mean over all targets, at the weights of a directory rounded to
    bfloat16: as transformers computes them in bfloat16, or in float64 throughout."""
    exact = dtype is torch.float64
    torch.set_default_dtype(torch.float64 if exact else torch.float32)
    with Lift() if exact else nullcontext():
        model = transformers.AutoModelForCausalLM.from_pretrained(start, attn_implementation="eager",
                                                                  dtype=torch.bfloat16)
        model = model.to(dtype) if exact else model  # to() would narrow the table of angles
        logits = model(inputs, use_cache=False).logits
        wide = logits if exact else logits.to(torch.float32)
        loss = torch.nn.functional.cross_entropy(wide.flatten(0, 1), targets.flatten())
        loss.backward()
    return float(loss), {name: weight.grad for name, weight in model.named_parameters()}
