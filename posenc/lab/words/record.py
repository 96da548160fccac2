"""What was run and how to repeat it; keys of the manifest under `key_`."""

from posenc.words import Texts

RECORD: Texts = {
    "failed_runs": ("Failed and unfinished runs", "失败和未完成的训练"),
    "seed": ("Seed", "种子"),
    "state": ("State", "状态"),
    "reason": ("Reason", "原因"),
    "without_result": ("Runs without a result", "没有结果的训练"),
    "failed_note": (
        "They are in no number above. The same command goes on from what is done.",
        "以上的数字都不含它们。再运行同一命令，会从已完成的部分接着做。",
    ),
    "done": ("done", "完成"),
    "failed": ("failed", "失败"),
    "unfinished": ("unfinished", "未完成"),
    "stopped": ("stopped", "停止"),
    "full": ("stopped", "停止"),
    "no_reason": ("no reason was recorded", "没有记录原因"),
    "stopped_at_once": ("stopped before the first record", "在第一条记录之前停止"),
    "stopped_after": ("stopped after step {step}", "在第 {step} 步之后停止"),
    "stopped_after_of": (
        "stopped after step {step} of {steps}",
        "在第 {step} 步之后停止，共 {steps} 步",
    ),
    "problems": ("Problems in the results files", "结果文件中的问题"),
    "what_was_run": ("What was run", "运行了什么"),
    "repeats": (
        "This command repeats it; runs that are done are not repeated.",
        "这条命令重做一遍，已完成的训练不会重做。",
    ),
    "as_set": ("The encodings, as they were set", "各编码的参数"),
    "foreign": (
        "{runs:# run|# runs} in this folder had other settings ({keys}) and cannot be compared with "
        "these.",
        "这个文件夹里另有 {runs} 次训练的设置不同（{keys}），不能与这些比较。",
    ),
    "own_settings": ("the encoding's own", "编码自己的参数"),
    "of_state": ("{count} {state}", "{count} 次{state}"),
    "seeds_of": ("{seeds} for {names}", "{names} 用 {seeds}"),
    "time": (
        "{seconds:,.0f} s of training and testing, summed over runs",
        "各次训练与测试合计 {seconds:,.0f} 秒",
    ),
    "pair": ("{key}: {value}", "{key}：{value}"),
    "or": (" or ", " 或 "),
    "key_runs": ("runs", "训练"),
    "key_started": ("started", "开始于"),
    "key_seeds": ("seeds", "种子"),
    "key_time": ("time", "用时"),
    "key_settings": ("settings", "设置"),
    "key_versions": ("versions", "版本"),
    "key_hardware": ("hardware", "硬件"),
    "key_cpu": ("cpu", "处理器"),
    "key_system": ("system", "系统"),
    "key_cores": ("cores", "核数"),
    "key_threads": ("threads", "线程"),
    "key_processes": ("processes", "进程"),
    "key_parallel": ("parallel", "并行"),
    "key_corpus": ("corpus", "语料"),
    "key_source": ("source", "来源"),
    "key_bytes": ("bytes", "字节"),
    "key_paths": ("paths", "路径"),
    "key_files": ("files", "文件"),
    "key_train_bytes": ("train bytes", "训练字节"),
    "key_test_bytes": ("test bytes", "测试字节"),
    "key_test_files": ("test files", "测试文件"),
    "key_split": ("split", "划分"),
    "key_skipped": ("skipped", "略过"),
    "key_unreadable": ("unreadable", "读不了"),
    "key_not a file": ("not a file", "不是文件"),
    "key_empty": ("empty", "空"),
    "key_binary": ("binary", "二进制"),
    "key_duplicate": ("duplicate", "重复"),
    "key_train_length": ("train length", "训练长度"),
    "key_test_lengths": ("test lengths", "测试长度"),
    "key_dim": ("dim", "宽度"),
    "key_depth": ("depth", "层数"),
    "key_heads": ("heads", "头数"),
    "key_batch": ("batch", "批大小"),
    "key_steps": ("steps", "步数"),
    "key_minutes": ("minutes", "分钟"),
    "key_learning_rate": ("learning rate", "学习率"),
    "key_warmup": ("warmup", "预热"),
    "key_weight_decay": ("weight decay", "权重衰减"),
    "key_spans": ("spans", "测试段数"),
    "key_version": ("version", "协议版本"),
}

# What the lab writes into manifests, and what it is in Chinese.
VALUES = {
    "text given with --text": "用 --text 给出的文本",
    " standard library": " 标准库",
    "by file: about a tenth of the bytes, in files chosen by the hash of their names": (
        "按文件：约十分之一的字节，文件由名称的哈希选出"
    ),
    "the last tenth of each file, because the text cannot be split by file": (
        "每个文件的最后十分之一，因为这份文本不能按文件划分"
    ),
}
