"""The Grafana dashboards of the chart, written from Python: `python -m hack.dashboards`.

`seed` and `shoot` say what is on each of them, `grafana` how Grafana wants it written, `queries` which series are
meant.
"""
