"""The words of furo, which has no translations, on Chinese pages."""

from sphinx.application import Sphinx

from extension.words import language

WORDS = {
    "Back to top": "回到顶部",
    "Copyright &#169; %(copyright)s": "版权所有 &#169; %(copyright)s",
    "Home": "首页",
    "Made with ": "页面主题：",
    "Next": "下一页",
    "On this page": "本页目录",
    "Previous": "上一页",
    "Skip to content": "跳到正文",
    "View this page": "查看本页源文件",
}


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", translate)


def translate(app: Sphinx) -> None:
    templates = getattr(app.builder, "templates", None)
    if language(app.config) != "zh" or templates is None:
        return
    names = templates.environment.globals
    before = names["gettext"]
    names["_"] = names["gettext"] = lambda text: WORDS.get(text) or before(text)
