"""What the conformance page says around its tables, in both languages."""

from posenc.words import Texts

TEXTS: Texts = {
    "head": (
        """# Conformance

Every encoding against the formula of its paper and, where there is one, against an independent
implementation with the same weights. An error is the largest one over all cases, relative to values
above 1, in float64; the gradient is that of inputs and position parameters. What is allowed is
1e-12 unless the last column says why it cannot be.

This page is generated from `conformance.json`, which `make conformance` measures
(`posenc check --all --peers tests.peers`) with {versions}.
""",
        """# 一致性

每一种编码都与论文的公式比较；有他人的独立实现时，也载入同样的权重与之比较。误差是所有例子中最大的，大于 1 的值取相对误差，用 float64 计算；
梯度是对输入和位置参数的梯度。允许的误差是 1e-12，做不到的地方由最后一列说明原因。

本页由 `conformance.json` 生成，后者由 `make conformance` 测量（`posenc check --all --peers tests.peers`），所用的版本是 {versions}。
要检验自己写的编码，见[写一种自己的编码](../howto/own_encoding.md)。
""",
    ),
    "peers": (
        "| encoding | oracle | cases | forward | gradient | status | allowed, and why |",
        "| 编码 | 与什么比较 | 例子数 | 前向 | 梯度 | 结果 | 允许的误差及原因 |",
    ),
    "suite": ("## The check suite", "## 检查套件"),
    "checks": (
        "| encoding | passed | failed | skipped by its tags |",
        "| 编码 | 通过 | 失败 | 因标签而跳过 |",
    ),
    "allowed": ("{forward:.0e}, {gradient:.0e}: {why}", "{forward:.0e}、{gradient:.0e}：{why}"),
}
