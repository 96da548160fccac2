"""What the conformance page says of peers in Chinese; what has no words here stays English."""

WHOLE = "整层"
IN_FLOAT64 = f"{WHOLE}，其 float32 的步骤改用 float64"

WHAT = {
    "normalized_laplacian_matrix and SciPy's eigenvectors, as AddLaplacianEigenvectorPE of PyG": (
        "normalized_laplacian_matrix 与 SciPy 的特征向量，即 PyG 的 AddLaplacianEigenvectorPE"
    ),
    "Diagonals of powers of a sparse matrix of transitions, as AddRandomWalkPE of PyG": (
        "稀疏的转移矩阵各次幂的对角线，即 PyG 的 AddRandomWalkPE"
    ),
    "What public tree Transformers do, in own words: a step down pushes a branch in front": (
        "按公开的树 Transformer 另行写成：往下走一步，就在前面压入一个分支"
    ),
    "Music Transformer's skewing, in own words: causal scores by padding and reshaping": (
        "Music Transformer 的错位（skewing），另行写成：先填充再改变形状，得到因果的得分"
    ),
    "Wav2Vec2ConformerSelfAttention with relative positions, both directions, the whole layer": (
        f"Wav2Vec2ConformerSelfAttention 加相对位置，前后两个方向，{WHOLE}"
    ),
    "Gemma4VisionPatchEmbedder, whole, with padding": "Gemma4VisionPatchEmbedder，整层，有填充",
    "DetrLearnedPositionEmbedding, columns beside rows": (
        "DetrLearnedPositionEmbedding，列与行并排"
    ),
    "InklingAttention of both kinds of layers without its convolutions, its float32 in float64": (
        "两种层的 InklingAttention，去掉卷积，其 float32 的步骤改用 float64"
    ),
    "RelativeProjPositionalBias without the bias of its projection": (
        "RelativeProjPositionalBias，其投影不带偏置"
    ),
    "What modules/rotary.py of timurcarstensen/selective-rope does, written again, in attention": (
        "按 timurcarstensen/selective-rope 的 modules/rotary.py 重写，用于注意力"
    ),
    "What angle_dt.py and mamba3_siso_fwd.py of state-spaces/mamba turn by, in attention": (
        "按 state-spaces/mamba 的 angle_dt.py 和 mamba3_siso_fwd.py 转 q 和 k，用于注意力"
    ),
    "What src/Cable.py of axiomlab/Cable does, written again: softmax with cumulated biases": (
        "按 axiomlab/Cable 的 src/Cable.py 重写：softmax 加累积的偏置"
    ),
    "What models/rope_vit.py of StanfordMIMI/LieRE computes, in own words, behind a class token": (
        "按 StanfordMIMI/LieRE 的 models/rope_vit.py 另行写成，前面有一个类别词元"
    ),
    "CayleySTRING of RationAI's LSP-DETR, in own words: equations solved for each token": (
        "按 RationAI 的 LSP-DETR 的 CayleySTRING 另行写成，为每个词元解一次方程"
    ),
    "The paper's theorem 3.5: circulants applied to each token by fast Fourier transforms": (
        "论文的定理 3.5：用快速 Fourier 变换把循环矩阵作用到每个词元上"
    ),
    "The closed form on the page of model-architectures/GRAPE: identity, L and its square": (
        "model-architectures/GRAPE 页面上的闭式：单位矩阵、L 和 L 的平方"
    ),
    "AlibiPositionalBias, symmetric, also at real-valued positions": (
        "AlibiPositionalBias，前后对称，位置也取实数"
    ),
    "Attention with RotaryEmbedding(use_xpos=True), the whole layer, with memories before x": (
        f"Attention 加 RotaryEmbedding(use_xpos=True)，{WHOLE}，x 之前有记忆"
    ),
    "Attention with PolarEmbedding, the whole causal layer, its float32 steps in float64": (
        "Attention 加 PolarEmbedding，因果的整层，其 float32 的步骤改用 float64"
    ),
    "Attention with data_dependent_alibi, the whole causal layer": (
        "Attention 加 data_dependent_alibi，因果的整层"
    ),
    "Attention with use_cope, the whole causal layer": "Attention 加 use_cope，因果的整层",
    "BertEmbeddings, the whole layer": f"BertEmbeddings，{WHOLE}",
    "RobertaEmbeddings, whose padding has a row that is not trained": (
        "RobertaEmbeddings，填充有一行不训练"
    ),
    "BloomAttention, the whole layer, its float32 steps in float64": (
        f"BloomAttention，{IN_FLOAT64}"
    ),
    "Both versions' DisentangledSelfAttention, whole, where sqrt(3d) is not a whole number": (
        f"两个版本的 DisentangledSelfAttention，{WHOLE}，sqrt(3d) 不是整数"
    ),
    "Deberta's DisentangledSelfAttention, whole, where sqrt(3d) is a whole number": (
        f"Deberta 的 DisentangledSelfAttention，{WHOLE}，sqrt(3d) 是整数"
    ),
    "DebertaV2's DisentangledSelfAttention, whole, where sqrt(3d) is a whole number": (
        f"DebertaV2 的 DisentangledSelfAttention，{WHOLE}，sqrt(3d) 是整数"
    ),
    "GptOssAttention with YaRN, full and in a window, the whole layer, its angles in float64": (
        f"GptOssAttention 加 YaRN，有窗口和没有窗口，{WHOLE}，其角度改用 float64"
    ),
    "F.scaled_dot_product_attention with grouped heads, aligned at the last key": (
        "F.scaled_dot_product_attention，头分组共用键，与最后一个键对齐"
    ),
    "FalconAttention, the whole layer, its bfloat16 bias in float64": (
        f"FalconAttention，{WHOLE}，其 bfloat16 的偏置改用 float64"
    ),
    "DeepseekV2Attention, LatentAttention in both forms, its float32 steps in float64": (
        f"DeepseekV2Attention，LatentAttention 的两种形式，{IN_FLOAT64}"
    ),
    "DeepseekV3Attention, LatentAttention in both forms, its float32 steps in float64": (
        f"DeepseekV3Attention，LatentAttention 的两种形式，{IN_FLOAT64}"
    ),
    "DeepseekV4Attention of a sliding layer, whole, without sinks, its float32 steps in float64": (
        f"DeepseekV4Attention 的滑动窗口层，{WHOLE}，不带汇点，{IN_FLOAT64}"
    ),
    "GPTJAttention, the whole layer, interleaved and in part, its float32 steps in float64": (
        f"GPTJAttention，交错布局，部分旋转，{IN_FLOAT64}"
    ),
    "chunkllama_attn_replace.py of HKUNLP/ChunkLlama, a whole prompt, told again": (
        "HKUNLP/ChunkLlama 的 chunkllama_attn_replace.py，整段提示，另行写成"
    ),
    "dual_chunk_rope.py of vLLM and its steps of decoding, told again": (
        "vLLM 的 dual_chunk_rope.py 及其逐步解码，另行写成"
    ),
    "layers/path_attn.py of fla-org/flash-linear-attention, by its step of decoding": (
        "fla-org/flash-linear-attention 的 layers/path_attn.py，按其逐步解码写成"
    ),
    "layers/path_attn.py with use_forget_gate, of which it multiplies the logarithms by scale": (
        "同一文件，加 use_forget_gate，它把门的对数也乘以 scale"
    ),
    "GPTNeoXAttention, the whole layer, turned in part, its float32 steps in float64": (
        f"GPTNeoXAttention，部分旋转，{IN_FLOAT64}"
    ),
    "Llama4TextAttention without RoPE, the whole layer, its float32 steps in float64": (
        f"不带 RoPE 的 Llama4TextAttention，{IN_FLOAT64}"
    ),
    "LlamaAttention, the whole layer, with every rope_type, its float32 steps in float64": (
        f"LlamaAttention，每一种 rope_type，{IN_FLOAT64}"
    ),
    "M2M100SinusoidalPositionalEmbedding and SpeechT5ScaledPositionalEncoding, the modules": (
        "M2M100SinusoidalPositionalEmbedding 与 SpeechT5ScaledPositionalEncoding 这两个模块"
    ),
    "Ministral3Attention with exact RoPE, the whole layer, its float32 steps in float64": (
        f"Ministral3Attention 加精确的 RoPE，{IN_FLOAT64}"
    ),
    "MptAttention, the whole layer, its float32 steps in float64": f"MptAttention，{IN_FLOAT64}",
    "What vLLM's fope.py makes of the queries and keys of Intern-S1-Pro, in own words": (
        "vLLM 的 fope.py 对 Intern-S1-Pro 的查询和键所做的，用自己的代码重写"
    ),
    "What OpenMOSS/rope_pp's modeling_llama_rope_pp.py computes, in own words: queries doubled": (
        "OpenMOSS/rope_pp 的 modeling_llama_rope_pp.py 所算的，用自己的代码重写：查询加倍"
    ),
    "PixtralAttention with PixtralVisionRotaryEmbedding, the whole layer": (
        f"PixtralAttention 加 PixtralVisionRotaryEmbedding，{WHOLE}"
    ),
    "Qwen2VLAttention with the sections of Qwen2VLRotaryEmbedding, the whole layer": (
        f"Qwen2VLAttention，分段照 Qwen2VLRotaryEmbedding，{WHOLE}"
    ),
    "Qwen3VLTextAttention with the sections of Qwen3VLTextRotaryEmbedding, the whole layer": (
        f"Qwen3VLTextAttention，分段照 Qwen3VLTextRotaryEmbedding，{WHOLE}"
    ),
    "apply_rotary_pos_emb of Qwen3.5, which turns a quarter of the head, in turns, with YaRN": (
        "Qwen3.5 的 apply_rotary_pos_emb：只转头的四分之一，各轴轮流，用 YaRN"
    ),
    "apply_rotary_pos_emb of ERNIE 4.5 VL: rows and columns in turns, time in the last pairs": (
        "ERNIE 4.5 VL 的 apply_rotary_pos_emb：行与列轮流，时间在最后几对"
    ),
    "ROPE_INIT_FUNCTIONS as they are: gains, and frequencies relative to ours": (
        "原样的 ROPE_INIT_FUNCTIONS：增益，以及与我们相比的频率"
    ),
    "RelativePositionBias, made for scores divided by sqrt(d), and so multiplied by it": (
        "RelativePositionBias，它配的是除以 sqrt(d) 的得分，所以再乘回来"
    ),
    "RoFormerSelfAttention, interleaved, causal and not, its float32 table in float64": (
        "RoFormerSelfAttention，交错布局，因果与否都比，其 float32 的表改用 float64"
    ),
    "RotaryEmbedding(learned_freq=True), whose parameter is the frequency, not its logarithm": (
        "RotaryEmbedding(learned_freq=True)，其参数是频率本身，不是频率的对数"
    ),
    "RotaryEmbedding(use_xpos=True).rotate_queries_and_keys, then attention": (
        "RotaryEmbedding(use_xpos=True).rotate_queries_and_keys，再做注意力"
    ),
    "RotaryEmbedding, in part, plain, interpolated and NTK, its float32 steps in float64": (
        "RotaryEmbedding：部分旋转、不缩放、插值、NTK，其 float32 的步骤改用 float64"
    ),
    "ScaledSinusoidalEmbedding, its scale set to 1": "ScaledSinusoidalEmbedding，其缩放设为 1",
    "SmolLM3Attention of a layer without rotation, the whole layer with grouped heads": (
        f"不旋转的那种层里的 SmolLM3Attention，{WHOLE}，头分组共用键"
    ),
    "T5Attention, the whole layer, also with a cache": f"T5Attention，{WHOLE}，也带缓存",
    "The module CoPE, on masked logits of fewer queries than keys": (
        "模块 CoPE，用于遮住一部分的 logit，查询少于键"
    ),
    "VisionAttention with Qwen2VLVisionRotaryEmbedding, the whole layer": (
        f"VisionAttention 加 Qwen2VLVisionRotaryEmbedding，{WHOLE}"
    ),
    "Wav2Vec2BertSelfAttention with relative keys, the whole layer": (
        f"Wav2Vec2BertSelfAttention，用相对的键，{WHOLE}"
    ),
    "XLNetRelativeAttention, the whole layer, and the table that XLNetModel gives it": (
        f"XLNetRelativeAttention，{WHOLE}，以及 XLNetModel 交给它的表"
    ),
    "XLNetRelativeAttention, the whole layer, with memory, and XLNet's sinusoids in float64": (
        f"XLNetRelativeAttention，{WHOLE}，带记忆，XLNet 的正弦改用 float64"
    ),
    "generate_alibi_bias, causal, where the number of heads is a power of two": (
        "generate_alibi_bias，因果，头数是 2 的幂"
    ),
    "generate_sandwich_bias in float64, its scores and the attention that they give": (
        "用 float64 的 generate_sandwich_bias：得分，以及由此得到的注意力"
    ),
    "generate_sliding_window, which looks back `window_size` tokens besides the token itself": (
        "generate_sliding_window，除词元自己之外再往回看 `window_size` 个"
    ),
    "What naver-ai/rope-vit's models/vit_rope.py computes, in own words: a class token in front": (
        "naver-ai/rope-vit 的 models/vit_rope.py 所算的，用自己的话写出：前面有一个类别词元"
    ),
    "build_2d_sinusoidal_position_embedding of ViTMAE, rows first": (
        "ViTMAE 的 build_2d_sinusoidal_position_embedding，行在前"
    ),
    "DetrSinePositionEmbedding, with and without normalize": (
        "DetrSinePositionEmbedding，归一化与不归一化"
    ),
    "What timm, big_vision and MAE's authors compute, in own words: order and denominators": (
        "timm、big_vision 和 MAE 作者的代码所算的，用自己的话写出：次序与分母"
    ),
    "SwinAttention over windows, the whole layer": "各窗口上的 SwinAttention，整层",
    "BeitRelativePositionBias with its class token, and attention": (
        "带类别词元的 BeitRelativePositionBias，再做注意力"
    ),
    "Swinv2SelfAttention over windows, trained on windows of the same and of another size": (
        "各窗口上的 Swinv2SelfAttention，训练时的窗口大小相同或不同"
    ),
    "DINOv3ViTAttention with DINOv3ViTRopePositionEmbedding, behind 5 tokens that do not turn": (
        "DINOv3ViTAttention 与 DINOv3ViTRopePositionEmbedding，前面有 5 个不旋转的词元"
    ),
    "get_axial_freqs and apply_rotary_emb over images and videos, then attention": (
        "get_axial_freqs 与 apply_rotary_emb，用于图像和视频，再做注意力"
    ),
    "masking_utils' chunks of Llama 4: of several widths, left padded, fewer queries": (
        "masking_utils 中 Llama 4 的分块：各种宽度、左侧填充、查询较少"
    ),
    "masking_utils' sliding windows: causal, both ways, left padded, packed, fewer queries": (
        "masking_utils 的滑动窗口：因果、双向、左侧填充、打包、查询较少"
    ),
    "nn.RNN, fed with zeros": "nn.RNN，输入全为零",
    "odeint, method dopri5": "odeint，方法 dopri5",
    "odeint, method rk4 on the same grid": "odeint，方法 rk4，网格相同",
    "rotate_queries_or_keys, in part, plain, interpolated and NTK, its float32 steps in float64": (
        "rotate_queries_or_keys：部分旋转、不缩放、插值、NTK，其 float32 的步骤改用 float64"
    ),
    "signal.square and signal.sawtooth, whose width 1/2 makes triangles": (
        "signal.square 与 signal.sawtooth，后者宽度取 1/2 就是三角波"
    ),
    "table of XLM: Waveform's default is the sinusoid": "XLM 的表：Waveform 默认就是正弦",
    "tables of CTRL, DETR and Whisper, made in float64": (
        "CTRL、DETR 与 Whisper 的表，用 float64 制成"
    ),
    "tables of XLM, RoFormer and Marian": "XLM、RoFormer 与 Marian 的表",
    "the score scale that DeepseekV3Attention makes from YaRN's factor and mscale_all_dim": (
        "DeepseekV3Attention 由 YaRN 的 factor 和 mscale_all_dim 得出的得分缩放"
    ),
}

# Why an error may be larger.
CAPS = {
    "gradients of early steps are sums over all later tokens, in another order here and there": (
        "较早各步的梯度是其后所有词元之和，两边相加的次序不同"
    ),
    "the peer turns queries and keys in float32": "对照实现用 float32 旋转查询和键",
    "scaled_size_sqrt rounds sqrt(3d) to float32": "scaled_size_sqrt 把 sqrt(3d) 舍入到 float32",
    "theirs differentiates the solver's steps and interpolation, ours is the adjoint method": (
        "对方对求解器的各步和插值求导，我们用伴随方法"
    ),
    "its frequencies and ramps are float32": "其频率和过渡段是 float32",
    "Wav2Vec2ConformerRelPositionalEmbedding makes its sinusoids in float32": (
        "Wav2Vec2ConformerRelPositionalEmbedding 用 float32 计算正弦"
    ),
    "their tables are rounded to float32": "这些表舍入到了 float32",
    "their table is rounded to float32": "这张表舍入到了 float32",
    "their angles are float32, at positions up to 151": "其角度是 float32，位置到 151 为止",
    "its frequencies are float32, at positions up to 149": "其频率是 float32，位置到 149 为止",
    "XLNetModel.relative_positional_encoding computes frequencies and angles in float32": (
        "XLNetModel.relative_positional_encoding 用 float32 计算频率和角度"
    ),
}

STATUSES = {
    "agrees": "一致",
    "disagrees": "不一致",
    "failed": "失败",
    "not installed": "未安装",
}


def oracle(text: str) -> str:
    """`package version: what is compared`, or the paper."""
    package, _, what = text.partition(": ")
    return f"{'论文' if package == 'paper' else package}：{WHAT.get(what, what)}"
