"""What the property page says around its tables, in both languages; {names} are measured sizes."""

from posenc.words import Texts

TEXTS: Texts = {
    "geometry": (
        """# Properties

Measured by `posenc.analysis.measure` on what `make` gives for a model of {dim} dimensions,
{heads} heads and {length} tokens, trained on {trained}; untrained weights are as first drawn.
This page is generated (`make generate`). [Measures](../howto/measures.md) says what each number is.

## Geometry

| column | meaning |
|---|---|
| says | of what it says something: positions, distances, or what the content decides |
| unique | whether all {length} rows differ in bfloat16, or up to which one they do |
| growth | how many times its largest number grows from {early} rows to {length} |
| shift law | whether PE(p + 1) = M PE(p) with one matrix M |
| relative | whether scores of a given q and k depend on the distance alone |
| direction | whether s(i, j) differs from s(j, i) for some q and k, without a causal mask |
| same token | whether it does so with q = k |
| monotone | whether scores of q = k = ones never rise with distance |
| new at {length} | what {length} tokens bring that {trained} did not |

Of absolute encodings q and k are two projections of a position's vector, or that vector itself for
q = k. "causal" is for encodings that come with a causal mask, which tells the direction. A dash:
nothing to measure. `axial` reads tokens row by row of a square here: what it promises holds along
each axis.
""",
        """# 性质

由 `posenc.analysis.measure` 测量。对象是 `make` 为一个 {dim} 维、{heads} 个头、{length} 个词元、训练长度 {trained} 的模型给出的编码；
没有训练过的权重是初值。本页由 `make generate` 生成。每项数字是什么，见[测量](../howto/measures.md)。

## 几何

| 列 | 含义 |
|---|---|
| 说明 | 它说明的是什么：位置、距离，或者由内容决定 |
| 唯一 | {length} 行在 bfloat16 下是否各不相同，或者到哪一行为止 |
| 增长 | 从 {early} 行到 {length} 行，最大的数增大到几倍 |
| 平移律 | 是否有一个矩阵 M，使 PE(p + 1) = M PE(p) |
| 相对 | q 与 k 给定时，得分是否只取决于距离 |
| 方向 | 没有因果掩码时，是否有某些 q 与 k 使 s(i, j) 不同于 s(j, i) |
| 相同词元 | q = k 时是否也如此 |
| 单调 | q、k 全为 1 时，得分是否从不随距离上升 |
| {length} 时新增 | {length} 个词元会带来哪些 {trained} 个词元时没有的东西 |

对绝对位置编码，q 与 k 是位置向量的两个投影；q = k 时就是这个向量本身。“靠因果掩码”指自带因果掩码的编码，方向由掩码说明。
短横表示没有可测量的。`axial` 在这里把词元逐行排成正方形：它所保证的，沿每条轴成立。
""",
    ),
    "use": (
        """
## Use

| column | meaning |
|---|---|
| parameters | trained numbers for this model |
| causal only | defined for causal attention only |
| extent, context | it must know how far positions reach, or read its layer's input |
| decodes | with which cache decoding equals the full forward: `rotated` serves all that say any |
| linear attention | it changes embeddings or turns q and k, and asks for nothing else |
| SDPA | torch's scaled_dot_product_attention computes it |
| memory | linear in the length, or with a number for every pair |
| compiles, exports | as one graph |
""",
        """
## 使用

| 列 | 含义 |
|---|---|
| 参数 | 这个模型要训练多少个数 |
| 只用于因果 | 只对因果注意力有定义 |
| 范围、上下文 | 要知道位置最远到哪里；要读本层的输入 |
| 解码 | 用哪种缓存解码，结果才与整段前向相同：`rotated` 适用于所有填了缓存的编码 |
| 线性注意力 | 它只改动嵌入，或只旋转 q 与 k，此外一无所求 |
| SDPA | torch 的 scaled_dot_product_attention 能否计算它 |
| 内存 | 随长度线性增长，或者每对词元一个数 |
| 编译、导出 | 作为一整张图 |
""",
    ),
    "scaled": (
        """
## Wavelengths of every scaling

{pairs} pairs of base 10,000, trained on {trained} tokens, scaled by {factor} for {length}. A pair
that turned less than once in training meets new angles where it turns farther than it did then.
LongRoPE's divisors are found by search; here they rise evenly in the exponent, as an example.
""",
        """
## 各种缩放的波长

{pairs} 对维度，基数 10,000，训练长度 {trained}，按 {factor} 倍缩放，用于 {length}。训练中转不满一圈的维度对，若转得比那时更远，就会遇到新的角度。
LongRoPE 的除数是搜索得到的；这里仅作示例，让指数均匀递增。
""",
    ),
    "decay": (
        """
## Decay is not monotone

The inner product of two sinusoidal positions is sum cos(w k), and half of RoPE's score for
q = k = ones. RoFormer's figure 2 is a bound on scores, `abel_bound`. Distances below {reach}.
""",
        """
## 衰减不是单调的

两个正弦位置的内积是 sum cos(w k)，也是 q、k 全为 1 时 RoPE 得分的一半。RoFormer 的图 2 画的是得分的上界，即 `abel_bound`。距离小于 {reach}。
""",
    ),
    "order": (
        """
## Position sensitivity of whole models

Models with random weights read 8 sentences of 12 tokens and 16 permutations of each. Whether what
they say of the sentence changes; for a Transformer that is the mean over its tokens. `tokens` is
whether what is said of each token changes, once it is put back in its place.
""",
        """
## 整个模型的位置敏感性

权重随机的模型读 8 个句子，每句 12 个词元，再读每句的 16 种排列。“整句”一列说的是，它对整句的输出变不变；对 Transformer，这是各词元输出的平均。
“词元”一列说的是，把各词元放回原位之后，每个词元的输出变不变。
""",
    ),
}
