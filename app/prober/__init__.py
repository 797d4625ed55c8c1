"""The prober: looks at each shoot, decides, and scales its controllers down and up again.

`rules` decides, as pure functions.  `runner` is the loop of one shoot: look, decide, act, say when next.  `observer`
looks, through the `door` of the shoot; `scaler` acts, one flow at a time, `resource` by resource, as far as the verdict
gives its `consent`, by what the seed shows of each (`sight`).  `registry` keeps the runners, `controller` starts and
stops them as their Clusters come and go, and `telling` tells the notice board.
"""
