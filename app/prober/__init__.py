"""The prober: looks at each shoot, decides, and scales its controllers down and up again.

`rules` decides, as pure functions; `observer` looks, `scaler` acts, `runner` does so in turn for one shoot,
`registry` keeps the runners, and `controller` starts and stops them as their Clusters come and go.
"""
