"""What `posenc lab run` and `lab show` print."""

from posenc.words import Texts

SWEEP: Texts = {
    "run_is": ("{run}: {state}", "{run}：{state}"),
    "metric": ("metric", "指标"),
    "length": ("length", "长度"),
    "value": ("value", "数值"),
    "trained_on": ("trained on", "训练长度"),
    "untested": ("not tested", "没有测成"),
    "unlearned": (
        "†: not learned, less than half of the way from chance to all answers is right at the "
        "train length; longer inputs say nothing.",
        "†：没有学会，在训练长度上答对的不到从碰运气到全对的一半；更长处的数字说明不了什么。",
    ),
    "runs_failed": (
        "{failed:# run|# runs} failed: `posenc lab show` tells why.",
        "{failed} 次运行失败：`posenc lab show` 会说明原因。",
    ),
}
