"""Who carries runs out: this machine's processes (`local`), or a cluster of Ray (`ray`).

An engine does the same to every run, in any order and in any place, and what it leaves in the
output folder says nothing of it: rows, losses and weights are those of any other engine on the
same device with as many threads.
"""
