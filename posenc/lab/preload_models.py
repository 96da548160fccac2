"""What the server of worker processes loads once for runs of models of transformers."""

# Its parts are imported when they are asked for, which takes seconds.
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

import posenc.extend.material as material
import posenc.models.attach as attach

__all__ = ["AutoModelForCausalLM", "AutoTokenizer", "LlamaForCausalLM", "attach", "material"]
