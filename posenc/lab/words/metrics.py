"""Names of what is measured, in letters that the figures' own font has."""

from posenc.words import Texts

METRICS: Texts = {
    "loss": ("loss (nats)", "损失（nat）"),
    "windows": ("loss of whole windows (nats)", "所有词元的损失（nat）"),
    "exact": ("share of right answers", "对的比例"),
    "token": ("share of right tokens", "词元对的比例"),
}
