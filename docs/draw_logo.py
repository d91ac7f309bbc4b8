"""Draw the logo: ranges on a scale, narrower from row to row, down to a point.

Run it from the root of the repository: ``python docs/draw_logo.py > docs/_static/logo.svg``.
"""

COLORS = ("#56b4e9", "#0072b2", "#d55e00")  # safe for colour-blind readers
ENDS = ((10, 54), (22, 50), (36, 36))  # left and right end of each range, in a square of 64

bars = "\n".join(
    f'  <path d="M{left} {18 + 14 * row}H{right + 0.01:g}" stroke="{color}"/>'
    for row, ((left, right), color) in enumerate(zip(ENDS, COLORS, strict=True))
)
print(
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64" role="img" aria-label="pril">\n'
    '  <rect width="64" height="64" rx="14" fill="#f4f7fa"/>\n'
    f'  <g stroke-width="9" stroke-linecap="round">\n{bars}\n  </g>\n</svg>'
)
