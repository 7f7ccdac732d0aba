"""Charts as inline SVG, one file per kind.

Every chart is fluid: positions across are percentages of the chart's width and text keeps its size,
so the same markup is readable on a desk, on a phone and on paper. Colours come from the page's style
sheet, which knows light and dark. Each chart carries a text alternative.
"""
